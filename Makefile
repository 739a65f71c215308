# The commands of this repository. `make` alone lists them.

# Each module is built and tested by itself, in the versions that its own go.mod names, not in those that go.work makes of
# all together.
export GOWORK := off

SHELL       := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:

# VERSION is stamped into the binary.
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo development)
# ARGS are further arguments of `coordd serve` for `make run`.
ARGS ?=
# IMAGE is the name of the image of `make docker-image`, PLATFORM what it runs on, such as linux/arm64.
IMAGE ?= coordd
PLATFORM ?= linux/$(shell go env GOARCH)

# MODULES are those of this repository, but for the two that have no package of ours.
MODULES := $(filter-out conformance/bench/etcd %/testdata/alone,. $(patsubst %/go.mod,%,$(shell git ls-files '*/go.mod')))
TOOLS := .ci/tools
TOOLBIN := $(CURDIR)/bin/tools
NOTICES := THIRD-PARTY-NOTICES.txt
# Released programs have the newest versions of the modules that they link; those in go.mod are the lowest that the code
# needs, since they bind everybody who imports the stand-in.
RELEASE := -modfile=$(CURDIR)/go.release.mod
# MAKE_NOTICES writes the licences of everything that they link into a file.
MAKE_NOTICES = GOFLAGS="$$(go env GOFLAGS) $(RELEASE)" $(TOOLBIN)/notices ./cmd/coordd ./cmd/coordd-standin >$(1)
# PROTOC writes the Go code of all .proto files below a folder.
PROTO_FOLDERS := coordination raftstore server
PROTOC = PATH="$(TOOLBIN):$$PATH" goprotoc -I . --go_out=paths=source_relative:$(1) --go-grpc_out=paths=source_relative:$(1) \
	$$(find $(PROTO_FOLDERS) -name '*.proto')

# LONG are the longer programmes, those of the script .ci/long.
LONG := $(shell sed -n 's/^\([a-z-]*\)() { \#\# .*/\1/p' .ci/long)
.PHONY: help run build release check test lint generate generate-check compat compat-results compat-check compat-upstream \
	compat-js compat-cpp compat-doubles test-console conformance conformance-map differences docker-image docker-context docker-test tools golangci clean $(LONG)

help: ## list these commands
	@awk -F ' ## ' '/^[a-z-]+(:.*|\(\) {) ## / { name = $$1; sub(/[:(].*/, "", name); printf "  make %-15s %s\n", name, $$2 }' \
		Makefile .ci/long

run: build ## build and start a server with its data in the user's state directory (ARGS='--listen :2136' for more)
	@exec bin/coordd serve $(ARGS)

# The binary does without gRPC's traces, which are for a page that is not served.
SLIM := -tags grpcnotrace
GO_BUILD = go build $(RELEASE) -trimpath -buildvcs=false $(SLIM) -ldflags '-s -w -X github.com/coordd/coordd/internal/cmdline.version=$(VERSION)'

build: ## build the static binaries bin/coordd and bin/coordd-standin
	@CGO_ENABLED=0 $(GO_BUILD) -o bin/ ./cmd/coordd ./cmd/coordd-standin && mkdir -p bin/built

# Releases are made in a clone of the tag alone, see docs/install.md. PLATFORMS are those to build for, such as linux/amd64.
PLATFORMS ?=
release: VERSION = $${version}
release: ## make all files of a release in dist/, for the version that a tag of this commit names
	@cd .ci/release && go build -buildvcs=false -o $(TOOLBIN)/release .
	@$(TOOLBIN)/release $(if $(PLATFORMS),-platforms $(PLATFORMS)) -- $(GO_BUILD)

check: build tools ## what to run after each change: build, linters, the tests that are quick, without the race detector
	@.ci/check

test: build ## build, lint and run the tests, those that can race with the race detector where there is a C compiler
	@.ci/test

$(LONG):
	@.ci/long $@

# LINTER is what looks at a module. CI has go vet do it: to compile golangci-lint from nothing takes two minutes of a processor.
LINTER ?= $(TOOLBIN)/golangci-lint run
GOLANGCI = $(findstring golangci,$(LINTER))
# BASE is the commit that a change is compared with: where it left main or, on main, the commit before.
BASE = $(shell base=$$(git merge-base HEAD main 2>/dev/null); [ "$$base" != "$$(git rev-parse HEAD)" ] && echo $$base || git rev-parse HEAD~1)
lint: $(GOLANGCI) ## check formatting, and the linters of .golangci.yml in all modules; long lines only where they changed
	@unformatted="$$(gofmt -l $$(find . -name '*.go' -not -path './bin/*'))"; if [ -n "$$unformatted" ]; then echo "not formatted, run gofmt -w on:" $$unformatted >&2; exit 1; fi
	@for module in $(MODULES); do (cd $$module && $(LINTER) ./...) || exit 1; done
	@$(if $(GOLANGCI),$(LINTER) --enable-only lll --new-from-rev "$(BASE)" ./...)
	@$(if $(GOLANGCI),GOOS=windows go vet ./server/standin) # which others start in their tests there

generate: tools ## make the Go code of the .proto files and the third-party notices anew
	@$(call PROTOC,.)
	@$(call MAKE_NOTICES,bin/$(NOTICES)) && cp bin/$(NOTICES) $(NOTICES)

generate-check: tools ## fail if the generated code is not that of the .proto files, or the notices are not those of the modules
	@made="$$(mktemp -d)"; trap 'rm -rf "$$made"' EXIT; stale=; $(call PROTOC,$$made); $(call MAKE_NOTICES,$$made/$(NOTICES)); \
	for file in $$({ find $(PROTO_FOLDERS) -name '*.pb.go'; cd "$$made" && find * -type f; } | sort -u); do \
		cmp "$$file" "$$made/$$file" || stale=yes; done; [ -z "$$stale" ] || { echo "not fresh: run make generate" >&2; exit 1; }

compat: build ## run the tests on the unmodified Go SDK, against bin/coordd and in their own process, and the SDKs' own tests
	@.ci/test sdk
	@$(MAKE) --no-print-directory compat-check

compat-results: build tools ## run the SDKs' own tests, and write what passed to compat/results.tsv and docs/sdks.md
	@.ci/sdks write

compat-check: build tools ## run the SDKs' own tests, and fail if something else passes than compat/results.tsv and docs/sdks.md say
	@.ci/sdks check

compat-upstream: build ## run the Go SDK's own integration tests against bin/coordd, and print what passed
	@cd compat/go/upstream && COORDD_BIN=$(CURDIR)/bin/coordd go test -count=1 -timeout 15m -v .

compat-js: build ## run the tests in JavaScript on the SDK's packages (compat/js), where there is Node.js
	@COORDD_BIN=$(CURDIR)/bin/coordd compat/js/run

compat-cpp: build ## run the programs on the C++ SDK (compat/cpp), where that is installed
	@COORDD_BIN=$(CURDIR)/bin/coordd compat/cpp/run

# They mostly wait, so many run at a time.
compat-doubles: build ## run doubles of the SDKs for C++, Java, Python, Rust and .NET against bin/coordd, and print what they show
	@cd compat/doubles && COORDD_BIN=$(CURDIR)/bin/coordd go test -vet=off -count=1 -parallel 24 -timeout 10m -v . | \
		grep -v '^ *\(=== \|--- PASS\)'

test-console: build ## open the console in Chromium, where there is one; SCREENSHOTS=FOLDER keeps pictures of all views
	@COORDD_BIN=$(CURDIR)/bin/coordd compat/console/run

conformance: ## replay the transcripts on all local targets: pure, stored, with leader changes, server, server with users, binary, cluster
	@CLUSTER_FULL=1 go test ./conformance -count=1 -timeout 30m \
		-run '^Test(Pure|PureStored|PureFailOver|FailOverExemptions|Server|GuardedServer|Binary|Cluster|ClusterInTime|ClusterFailOver|ClusterRestless|Map|Differences)$$'

conformance-map: ## print which scripts and tests show which rule; fails on a rule without one
	@cd conformance && go test -count=1 -run '^TestMap$$' -map

differences: ## write docs/differences.md anew from the scripts
	@go test ./conformance -count=1 -run '^TestDifferences$$' -write-differences

# The context of the image is a folder of its own, with nothing in it to send but the program and its licences. The folder of its volumes is for their
# owner alone, as they will be.
docker-context:
	@rm -rf bin/docker && mkdir -p bin/docker && mkdir -m 0700 bin/docker/data
	@cp LICENSE $(NOTICES) bin/docker/
	@cp bin/coordd bin/coordd-standin bin/docker/ 2>/dev/null || true # go build leaves them as they are if they are right
	@CGO_ENABLED=0 GOOS=$(word 1,$(subst /, ,$(PLATFORM))) GOARCH=$(word 2,$(subst /, ,$(PLATFORM))) $(GO_BUILD) \
		-o bin/docker/ ./cmd/coordd ./cmd/coordd-standin

DOCKER_BUILD = for image in coordd coordd-standin; do docker build --quiet --platform $(PLATFORM) --build-arg VERSION=$(VERSION) \
	--file docker/Dockerfile --target $$image --tag $(IMAGE)$${image\#coordd} bin/docker || exit 1; done

docker-image: docker-context ## build the container images IMAGE and IMAGE-standin for PLATFORM (docs/docker.md)
	@$(DOCKER_BUILD)
	@docker image inspect --format '{{index .RepoTags 0}}: {{.Os}}/{{.Architecture}}, {{.Size}} bytes' $(IMAGE) $(IMAGE)-standin

# The engine may be in a network of its own, so everything that may have to be fetched is built before it starts.
# The tests on Testcontainers take a minute to compile, so they are no part of make test.
docker-test: IMAGE = coordd-test
docker-test: docker-context ## build the image and test it and the compose files; as root it brings its own engine up where dockerd is installed
	@go test -c -o bin/docker.test ./docker
	@cd compat/go/testcontainers && go test -c -o $(CURDIR)/bin/testcontainers.test .
	@docker/with-engine bash -euo pipefail -c '$(DOCKER_BUILD) && cd docker && export COORDD_IMAGE=$(IMAGE) COORDD_STANDIN_IMAGE=$(IMAGE)-standin && \
		../bin/docker.test -test.v -test.parallel 4 -test.timeout 10m && TESTCONTAINERS_RYUK_DISABLED=true ../bin/testcontainers.test -test.v -test.timeout 5m'

tools: # build the pinned tools; the build cache makes a repetition cheap
	@cd $(TOOLS) && go build -buildvcs=false -o $(TOOLBIN)/ ./notices ./sdks github.com/jhump/goprotoc/cmd/goprotoc \
		google.golang.org/protobuf/cmd/protoc-gen-go google.golang.org/grpc/cmd/protoc-gen-go-grpc
golangci:
	@cd $(TOOLS) && go build -buildvcs=false -o $(TOOLBIN)/ github.com/golangci/golangci-lint/v2/cmd/golangci-lint

clean: ## remove what was built
	@rm -rf bin
