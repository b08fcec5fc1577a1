# make help lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS := -X main.version=$(VERSION)
FUZZTIME ?= 3s

.PHONY: help
help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

.PHONY: build
build: ## the binary, bin/klink
	CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)' -o bin/klink ./cmd/klink

.PHONY: setup
setup: ## installs what the tests need (Debian packages when root, npm packages)
	@tools/setup.sh

.PHONY: lint
lint: ## formatting, vet, static analysis, modern idioms
	@tools/lint.sh

.PHONY: generate
generate: ## generated code, from the .proto files
	go generate ./proto

.PHONY: fuzz
fuzz: ## each fuzz target for FUZZTIME
	@FUZZTIME=$(FUZZTIME) tools/fuzz.sh

.PHONY: test
test: setup lint fuzz ## everything: lint, short fuzz, then all tests with the race detector
	go test -race -timeout 15m ./...

.PHONY: results
results: build ## measures everything (about 15 minutes, the machine should be idle) and writes docs/results.md
	@tools/results.sh

.PHONY: unit
unit: ## the tests without set-up, lint, fuzz and race detector
	go test ./...
