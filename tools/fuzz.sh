#!/usr/bin/env bash
# Runs every fuzz target of the tree for FUZZTIME (default 5s) each, beyond its committed seeds.
set -euo pipefail
cd "$(dirname "$0")/.."
time="${FUZZTIME:-5s}"
n=0
while IFS=: read -r file name; do
  go test -run='^$' -fuzz="^${name}\$" -fuzztime="$time" -parallel=2 "./$(dirname "$file")" >/tmp/klink-fuzz.$$ 2>&1 || {
    cat /tmp/klink-fuzz.$$
    rm -f /tmp/klink-fuzz.$$
    echo "fuzz: $file $name failed" >&2
    exit 1
  }
  n=$((n + 1))
done < <(git ls-files -co --exclude-standard '*_test.go' | xargs grep -oHE '^func Fuzz[A-Za-z0-9_]+' | sed 's/:func /:/')
rm -f /tmp/klink-fuzz.$$
echo "fuzz: $n targets, $time each"
