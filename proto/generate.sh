#!/usr/bin/env bash
# Generates the Go code of every .proto file below proto/ into the directory given, default: next to the .proto files.
# protoc's own version leaves no trace in the output but a comment, which is cut so that any recent protoc gives the same file.
set -euo pipefail
cd "$(dirname "$0")"
out="${1:-.}"
command -v protoc >/dev/null || { echo "generate: protoc is missing; make setup installs it" >&2; exit 1; }

bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT
go build -C .. -modfile=tools/go.mod -o "$bin/protoc-gen-go" google.golang.org/protobuf/cmd/protoc-gen-go

mapfile -t files < <(find klink -name '*.proto' | LC_ALL=C sort)
protoc --plugin="protoc-gen-go=$bin/protoc-gen-go" --proto_path=. --go_out="$out" --go_opt=paths=source_relative "${files[@]}"
for f in "${files[@]}"; do
  sed -i -E '/^\/\/\s+(- )?protoc\s+v/d' "$out/${f%.proto}.pb.go"
done
