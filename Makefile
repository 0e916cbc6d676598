# The front door. Every target does its own set-up and can be run twice; `make help` lists them.
SHELL := /bin/sh
.DEFAULT_GOAL := help
.PHONY: help demo test check lint build bench image up down fmt gen picture tools clean

cpu := $(if $(filter aarch64 arm64,$(shell uname -m)),arm64,x64)
node := node_modules/node-linux-$(cpu)/bin/node
bin := node_modules/.bin
# Programs of node_modules run on the pinned Node, not on the system's.
export PATH := $(CURDIR)/node_modules/node-linux-$(cpu)/bin:$(PATH)

help: ## what can be made
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 16

demo: $(node) ## the whole thing on a local Kubernetes: a pod on a bucket, step by step
	@$(node) tools/demo.ts

test: lint ## all tests, on real Kubernetes, S3 and FUSE; needs root
	@$(node) tools/preflight.ts
	@$(node) tools/programs.ts
	@$(node) tools/image.ts
	@$(node) tools/test.ts pure,stack

check: lint ## format, lint, types, unit and model tests; under a minute, no root
	@$(node) tools/test.ts pure

lint: $(node) ## format, lint and types alone
	@$(bin)/oxfmt --check . >/dev/null || { $(bin)/oxfmt --check .; echo "run: make fmt"; exit 1; }
	@$(bin)/oxlint --type-aware --deny-warnings --quiet
	@$(bin)/tsc -p .

build: $(node) ## build/s3csi, the program as it is shipped
	@$(node) tools/bundle.ts

bench: $(node) ## benchmarks: all, or PART=NAME; tables here, figures in build/bench/
	@$(node) tools/bench.ts $(PART)

image: $(node) ## the container image for amd64 and arm64, an OCI archive in build/image/
	@$(node) tools/image.ts

up: $(node) ## start the local Kubernetes and leave it running
	@$(node) tools/up.ts

down: $(node) ## stop what `make up` has started
	@$(node) tools/down.ts

fmt: $(node) ## format all files
	@$(bin)/oxfmt .

gen: $(node) ## generate the gRPC code from src/csi/proto, and docs/options.md
	@$(node) tools/option-page.ts
	@$(bin)/buf generate src/csi/proto --template src/csi/proto/buf.gen.yaml

picture: $(node) ## docs/images/demo.svg, from a run of the demo
	@$(node) tools/demo-picture.ts

tools: $(node) ## build the programs of the test stack into the cache
	@$(node) tools/programs.ts

clean: ## remove what was built here; the shared cache stays
	rm -rf build node_modules

# Node and all packages, by the lock file. The system's npm is only needed here.
# On stderr: the stdout of `make up` is for a shell to read.
$(node): package.json package-lock.json .npmrc
	@command -v npm >/dev/null || { echo "error: npm is needed once, to fetch the pinned Node" >&2; exit 1; }
	@echo "  fetching Node and packages by the lock file" >&2
	@npm ci --prefer-offline --no-progress --loglevel=error >&2
	@touch $@
	@$@ --version >/dev/null || { echo "error: the pinned Node does not start; is libatomic1 installed?" >&2; exit 1; }
