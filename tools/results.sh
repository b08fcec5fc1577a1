#!/usr/bin/env bash
# Runs every bench of the binary and writes docs/results.md from the figures.
set -euo pipefail
cd "$(dirname "$0")/.."
lines=$(mktemp)
trap 'rm -f "$lines"' EXIT
for bench in session-memory fanout login unicast heartbeat presence; do
  echo "== $bench" >&2
  bin/klink bench "$bench" >>"$lines"
done
{
  cat docs/results.head.md
  bin/klink bench report <"$lines"
} >docs/results.md
