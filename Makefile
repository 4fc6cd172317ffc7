# Meshgate. "make" lists the targets.
SHELL := /bin/bash
.DEFAULT_GOAL := help
# One set of flags for everything, so that tests and programs share what is built.
export GOFLAGS := -buildvcs=auto -trimpath
export CGO_ENABLED := 1
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo development)
GO_FILES := $(shell find . -name '*.go' -not -path './.tools/*') go.mod go.sum
C_FILES := $(wildcard filter/dynamicmodule/*.[ch] filter/golang/front/*)
TEST_FLAGS ?=
# How programs are built for the race detector. It watches Go's own heap; SQLite, which
# is C made Go, keeps what it has elsewhere, and scrypt is arithmetic of one goroutine.
# Watching them finds nothing and takes half of the time of the tests that use them.
RACE := -race $(foreach package,modernc.org/sqlite/lib golang.org/x/crypto/scrypt,-gcflags=$(package)=-race=false)
# The same for suites that are tried side by side.
GINKGO_FLAGS ?=
# The packages whose tests take longest are begun first: the last one would be tried
# alone, with the other processors idle.
LONG := controlplane/assembly xds/plan/sidecar filter/tokencache controlplane/revoke xds/plan/edge xds/relay controlplane/gatewayapi filter/dynamicmodule controlplane/meshapi xds/policy/all
# Further versions of Envoy that the core of the mesh suite must pass; 1.38.3 is also
# the one that an upgrade begins with.
ENVOY_VERSIONS ?= 1.38.3
# Tests of plans validate with each of them, and fail if one is missing.
test: export ENVOY_VERSIONS := $(ENVOY_VERSIONS)

# Suites that load the machine on purpose or measure it: nothing else is tried beside them.
LOADS := module|faults|chaos|attacker
# Suites that wait most of the time, each spec in a world of its own: PROCS of them
# are tried side by side.
WAITS := redises|mesh
PROCS ?= 4
SIDE_BY_SIDE := go tool ginkgo --procs=$(PROCS) --timeout=20m $(GINKGO_FLAGS)

.PHONY: help run build test check lint models smoke bench bench-fleet bench-gateway bench-routes soak chaos fuzz clean tools

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: build ## build everything and run the demo
	./bin/meshgate demo --state-dir .state

build: tools bin/meshgate bin/libmeshgate.so bin/libmeshgate-golang.so bin/libmeshgate-golang-fast.so ## build bin/meshgate and the libraries of the filter

tools:
	@.ci/install-envoy

bin/meshgate: $(GO_FILES)
	@echo "building bin/meshgate"
	@go build -ldflags '-X github.com/meshgate/meshgate/controlplane/version.Program=$(VERSION)' -o $@ ./controlplane/cmd/meshgate

# The module is written beside and renamed: overwriting it in place would crash
# an Envoy that has it mapped.
bin/libmeshgate.so: $(GO_FILES) $(C_FILES)
	@echo "building bin/libmeshgate.so"
	@go build -buildmode=c-shared -ldflags '-s -w -X=runtime.godebugDefault=cgocheck=0' -o $@.new ./filter/dynamicmodule
	@rm -f bin/libmeshgate.so.h && mv $@.new $@

bin/libmeshgate-golang.so: $(GO_FILES)
	@echo "building bin/libmeshgate-golang.so"
	@go build -buildmode=c-shared -ldflags '-s -w' -o $@.new ./filter/golang/plugin
	@rm -f $@.h && mv $@.new $@

bin/libmeshgate-golang-fast.so: $(GO_FILES) $(C_FILES)
	@echo "building bin/libmeshgate-golang-fast.so"
	@CFLAGS=-s filter/golang/front/build ./filter/golang/plugin $@ '-s -w'

# The whole of vet runs once, on its own: go test would repeat a part of it for each set
# of flags. It has the linter's flags, for the same reason (see lint).
test: build ## every test, with a real Envoy and a real Redis
	@.ci/install-packages
	@.ci/install-envoy $(ENVOY_VERSIONS)
	@GOFLAGS=-buildvcs=auto go vet ./...
	@echo "unit tests, with the race detector"
	@go test -vet=off -timeout 20m $(RACE) $(TEST_FLAGS) $$(go list $(addprefix ./,$(LONG)) ./... | grep -v '/e2e')
	@echo "end-to-end tests"
	@go test -vet=off -count=1 -p 2 -timeout 20m $(TEST_FLAGS) $$(go list ./e2e/... | grep -vE '/e2e/($(LOADS)|$(WAITS)|walk)$$')
	@go test -vet=off -count=1 -v $(TEST_FLAGS) ./e2e/walk
	@go test -vet=off -count=1 -p 1 -timeout 20m $(TEST_FLAGS) $$(go list ./e2e/... | grep -E '/e2e/($(LOADS))$$')
	@$(SIDE_BY_SIDE) --keep-going $(foreach suite,$(subst |, ,$(WAITS)),./e2e/$(suite))
	@go build $(RACE) -o bin/meshgate-race ./controlplane/cmd/meshgate
	@for v in $(ENVOY_VERSIONS); do echo "meshes on Envoy $$v, the program with the race detector"; \
		MESHGATE_E2E_ENVOY=$(CURDIR)/.tools/envoy-$$v MESHGATE_E2E_BINARY=$(CURDIR)/bin/meshgate-race \
		$(SIDE_BY_SIDE) --label-filter=core ./e2e/mesh || exit 1; done

check: test lint models ## make test, make lint, make models

# With -trimpath what cgo makes is shared between checkouts, but names the files of the
# checkout that made it. Vet and the linter open these files, and fail if that checkout is
# gone.
lint: ## golangci-lint and govulncheck
	@.ci/install-linters
	@GOFLAGS=-buildvcs=auto .tools/bin/golangci-lint run ./...
	@.ci/vulnerabilities

models: ## check the model of revocation in every order, and that it sees known mistakes
	@.ci/install-packages
	@docs/models/check

smoke: build ## every benchmark and bench program once, at its smallest, and some fuzz targets
	@.ci/install-packages
	@.ci/smoke

bench: build ## figures for docs/performance.md
	@go test -run '^$$' -bench . -benchmem ./filter/... ./controlplane/... ./inspect/... ./xds/...
	@e2e/bench/run

bench-fleet: build ## the control plane under N proxies (N, SERVICES, OUTBOUNDS, FLEET_FLAGS)
	@go run ./e2e/bench/fleet -n $(or $(N),1000) -services $(or $(SERVICES),50) -outbounds $(or $(OUTBOUNDS),10) $(FLEET_FLAGS)

bench-routes: build ## route tables in a real Envoy: updates, look-up, sharing, planning
	@go test -run '^$$' -bench 'Routes(Update|Plan)' -benchtime 3x ./xds/plan/edge
	@go test -run '^$$' -bench 'Routes(Lookup|WithoutHosts)' -benchtime 5000x ./xds/plan/edge

bench-gateway: build ## tokens and protected requests per second of CPU, memory of tokens (GATEWAY_FLAGS)
	@go run ./e2e/bench/gateway $(GATEWAY_FLAGS)

chaos: build ## faults against the promise of revocation, for TIME (2h), from SEED; a table goes to REPORT
	@.ci/install-packages
	@MESHGATE_E2E_CHAOS_TIME=$(or $(TIME),2h) MESHGATE_E2E_CHAOS_SEED=$(or $(SEED),$$RANDOM) \
		MESHGATE_E2E_CHAOS_REPORT=$(abspath $(or $(REPORT),bin/chaos.md)) \
		go test -count=1 -timeout 0 -v ./e2e/chaos -ginkgo.v -ginkgo.timeout=1000h -ginkgo.poll-progress-after=1000h

soak: build ## the module and the libraries for Go under storms, then the module also under resets, reloads and a busy collector, for TIME each (default 10m)
	@.ci/install-packages
	@MESHGATE_E2E_STORM_TIME=$(or $(TIME),10m) MESHGATE_E2E_SOAK_TIME=$(or $(TIME),10m) \
		go test -count=1 -timeout 0 -v -run '^Test(StormOfStrangers|Soak)$$' ./e2e/module
	@GOEXPERIMENT=cgocheck2 MESHGATE_E2E_STORM_TIME=$(or $(TIME),10m) \
		go test -count=1 -timeout 0 -v -run '^TestStorm$$' ./filter/filtertest/golanghost

fuzz: ## every fuzz target for FUZZTIME (default 20s)
	@.ci/fuzz $(or $(FUZZTIME),20s)

clean: ## remove what was built
	rm -rf bin
