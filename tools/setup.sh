#!/usr/bin/env bash
# Installs what the tests need and the machine lacks: Debian packages when root, npm packages of the interop tests.
# Safe to run again; does nothing when everything is there.
set -euo pipefail
cd "$(dirname "$0")/.."

want=()
command -v openssl >/dev/null || want+=(openssl)
command -v chromium >/dev/null || want+=(chromium)
command -v protoc >/dev/null || want+=(protobuf-compiler)
command -v node >/dev/null || want+=(nodejs)
command -v npm >/dev/null || want+=(npm)
command -v curl >/dev/null || want+=(curl)
if [ ${#want[@]} -gt 0 ]; then
  if [ "$(id -u)" -ne 0 ]; then
    echo "setup: missing: ${want[*]}; install them, or run this as root on Debian" >&2
    exit 1
  fi
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -q >/dev/null
  apt-get install -y -q --no-install-recommends "${want[@]}" >/dev/null
fi

for d in internal/interop/node; do
  if [ -f "$d/package-lock.json" ] && ! cmp -s "$d/package-lock.json" "$d/node_modules/.installed"; then
    (cd "$d" && npm ci --silent --no-audit --no-fund --ignore-scripts && cp package-lock.json node_modules/.installed)
  fi
done
