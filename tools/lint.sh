#!/usr/bin/env bash
# Formatting, vet, staticcheck and go fix over the whole tree. Prints what is wrong and fails; prints nothing when all is well.
set -euo pipefail
cd "$(dirname "$0")/.."
tool() { go tool -modfile=tools/go.mod "$@"; }

mapfile -t files < <(git ls-files -co --exclude-standard '*.go' | grep -vE '\.pb\.go$')
bad=$(gofmt -l "${files[@]}")
if [ -n "$bad" ]; then
  echo "lint: not formatted by gofmt:" >&2
  echo "$bad" >&2
  exit 1
fi
go vet ./...
tool staticcheck ./...
fix=$(go fix -diff ./... 2>&1 || true)
if [ -n "$fix" ]; then
  echo "lint: go fix would change:" >&2
  echo "$fix" >&2
  exit 1
fi
