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
# CRASH_ROUNDS is how often `make crash-test` kills the server; the tests have a
# short default of their own, which `make test` uses.
CRASH_ROUNDS ?= 50
# CLUSTER_ROUNDS is how often each kind of fault comes in `make cluster-test`.
CLUSTER_ROUNDS ?= 2
# CLUSTER_SAMPLES is how often it measures each kind of fail-over.
CLUSTER_SAMPLES ?= 20
CRASH_PACKAGES ?= ./conformance/crash
# MALFORMED_STREAMS is how many streams `make malformed-test` opens, and MALFORMED_SEED what they depend on.
MALFORMED_STREAMS ?= 10000
MALFORMED_SEED ?= 1
# LOCKS is how many `coordd lock` wait at a time in `make lock-test`.
LOCKS ?= 200
# DOUBLES_SOAK is how long `make doubles-soak` takes; make compat-doubles has a short form.
DOUBLES_SOAK ?= 30m
# ABUSE_SECONDS is how long each attack of `make abuse-test` goes on, ABUSE_NAME a part of the names of those wanted; make
# test has a short form.
ABUSE_SECONDS ?= 10
# FUZZ_TIME is how long `make fuzz-short` runs each target, FUZZ_PACKAGES where.
FUZZ_TIME ?= 10s
FUZZ_PACKAGES ?= ./...
# BENCH selects benchmarks, BENCH_PACKAGES where, BENCH_COUNT how often each runs.
BENCH ?= .
BENCH_PACKAGES ?= ./...
BENCH_COUNT ?= 3
# SEQS is how many sequences `make fuzz-model` runs.
SEQS ?= 20000

# IMAGE is the name of the image of `make docker-image`, PLATFORM what it runs on, such as linux/arm64.
IMAGE ?= coordd
PLATFORM ?= linux/$(shell go env GOARCH)

# The modules besides the server's own: the SDK tests, the benchmarks, and the tools. The benchmarks measure coordd beside
# other servers, whose clients take a minute to compile.
COMPAT := compat/go compat/go/standin
MEASURES := conformance/bench
# SUITES run programs of others, which are compiled or fetched: make compat and CI run them, make test does not.
SUITES := compat/go/upstream
# PEERS_ARGS, OPEN_ARGS and SCALING_ARGS are further arguments of make bench-peers, bench-open and bench-scaling.
PEERS_ARGS ?=
OPEN_ARGS ?=
SCALING_ARGS ?=
# TESTCONTAINERS needs a Docker engine, and a minute of compiling what it is built on: make docker-test runs it.
TESTCONTAINERS := compat/go/testcontainers
# DOUBLES behave like SDKs that cannot be installed here: make compat and CI run them, make test does not.
DOUBLES := compat/doubles
TOOLS  := .ci/tools
TOOLBIN := $(CURDIR)/bin/tools
PROTO_PLUGINS := $(TOOLBIN)/protoc-gen-go,$(TOOLBIN)/protoc-gen-go-grpc
NOTICES := THIRD-PARTY-NOTICES.txt
PROTOS = $(shell find coordination raftstore server -name '*.proto')

# The race detector needs a C compiler and the C library's headers. RACE is -race
# where a small program compiles, else empty; RACE_ENV, below, switches cgo on for it.
RACE := $(shell printf '\043include <pthread.h>\nint main(void) { return 0; }\n' | \
	$$(go env CC) -x c -o /dev/null - >/dev/null 2>&1 && echo -race)

# PARALLEL is how many test packages, and tests in each, run at a time: mostly they wait. TEST_TIMEOUT bounds a package.
PARALLEL ?= -p 3 -parallel 6
TEST_TIMEOUT ?= 15m
# Under the race detector, large pieces of memory are dear: unless told otherwise it maps their shadow anew each time they
# are allocated. make lint vets everything, so go test need not.
# The compiler's checks of unsafe pointers, which come with -race, take a twentieth of the time and concern no code of this
# repository.
RACE_FLAGS := $(if $(RACE),-race -gcflags=all=-d=checkptr=0)
RACE_ENV := $(if $(RACE),CGO_ENABLED=1 GORACE="clear_shadow_mmap_threshold=268435456 atexit_sleep_ms=200 $${GORACE:-}")
# PROGRAMS are the one under test, and where tests keep those that they build, which need not be linked each time.
PROGRAMS := COORDD_BIN=$(CURDIR)/bin/coordd COORDD_STANDIN_BIN=$(CURDIR)/bin/coordd-standin COORDD_BUILT=$(CURDIR)/bin/built
GO_TEST = $(PROGRAMS) $(RACE_ENV) go test $(RACE_FLAGS) -vet=off -count=1 $(PARALLEL) -timeout $(TEST_TIMEOUT)
GO_TEST_PURE = $(PROGRAMS) go test -vet=off -count=1 -timeout $(TEST_TIMEOUT)
# KEPT is where the linked tests stay: go test links one anew only if it has changed, and linking them all takes 40 s of a
# processor. A folder holds those of one module and one way of building; their names are the packages' last elements.
KEPT = -o $(CURDIR)/bin/tests/
# BUSY is how many processes `make test-starved` has compete with the tests.
BUSY ?= 16

.PHONY: help run build test tests-compiled test-starved test-long lint generate generate-check go-test tools-test measures-test compat compat-test compat-upstream \
	compat-doubles doubles-soak compat-js compat-cpp compat-found compat-check compat-results \
	crash-test lock-test cluster-test upgrade-test abuse-test malformed-test fuzz-short fuzz-model bench bench-watched bench-stub bench-limiter \
	bench-peers bench-chaos bench-open bench-scaling \
	conformance conformance-map \
	review-tests mutation-test differences fuzz docker-image docker-context docker-test tools race-note clean

help: ## list these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: build ## build and start a server with its data in the user's state directory (ARGS='--listen :2136' for more)
	@exec bin/coordd serve $(ARGS)

# What the binary carries of libraries that nothing here uses: gRPC's traces for a page that is not served, and code made
# for each type in an encoding of which the log's library wants nothing but to be there. Without it is 1.8 MB smaller.
SLIM := -tags grpcnotrace,notfastpath
GO_BUILD = go build -trimpath -buildvcs=false $(SLIM) -ldflags '-s -w -X github.com/coordd/coordd/internal/cmdline.Version=$(VERSION)'

build: ## build the static binaries bin/coordd and bin/coordd-standin
	@CGO_ENABLED=0 $(GO_BUILD) -o bin/ ./cmd/coordd ./cmd/coordd-standin && mkdir -p bin/built

# FILLER is how that runs which never waits: in what the others leave of the processors, so that it takes them no time.
FILLER := nice -n 10
# The SDK's tests mostly wait, and the checks are filler, so they run beside the server's tests; what they say comes behind.
# One that fails hides none.
test: race-note build tests-compiled ## build, lint and run the tests, those that can race with the race detector where there is a C compiler
	@said="$$(mktemp)"; trap 'rm -f "$$said"' EXIT; failed=; \
	{ of=0; $(MAKE) --no-print-directory compat-test || of=$$?; \
		$(FILLER) $(MAKE) --no-print-directory --keep-going lint generate-check tools-test measures-test || of=$$?; exit $$of; } \
		>"$$said" 2>&1 & beside=$$!; \
	$(MAKE) --no-print-directory go-test || failed=yes; \
	wait $$beside || failed=yes; cat "$$said"; [ -z "$$failed" ]
	@$(MAKE) --no-print-directory race-note

# Compilers take the processors that clusters elect their leaders with, so every test is compiled before the first one runs. That
# takes a second if they are.
tests-compiled:
	@$(GO_TEST) $(KEPT)raced/ -exec true $$($(TESTED) ./... | grep -vxF "$$(go list $(DRIVERS))") >/dev/null
	@$(GO_TEST_PURE) $(KEPT)pure/ -exec true $(PURE) $(MIXED) $(DRIVERS) >/dev/null
	@for module in $(COMPAT); do (cd $$module && $(GO_TEST) $(KEPT)$$module/ -exec true ./... >/dev/null) || exit 1; done
	@cd $(MEASURES) && go test -vet=off -count=1 -exec true ./... >/dev/null

# The busy processes end with the shell that started them, whatever becomes of it. There is no filler beside them: what is nicer
# than they would get next to nothing. Fewer clusters at a time hold up each other's elections less.
test-starved: PARALLEL = -p 2 -parallel 2
test-starved: TEST_TIMEOUT = 2h
test-starved: ## the same beside BUSY busy processes (16), which end with it
	@busy=(); trap 'kill "$${busy[@]}" 2>/dev/null || true' EXIT; \
	for ((i = 0; i < $(BUSY); i++)); do \
		(while kill -0 $$$$ 2>/dev/null; do for ((n = 0; n < 100000; n++)); do :; done; done) & busy+=($$!); \
	done; \
	echo "$(BUSY) busy processes run beside the tests: $${busy[*]}"; \
	$(MAKE) --no-print-directory FILLER= PARALLEL='$(PARALLEL)' TEST_TIMEOUT=$(TEST_TIMEOUT) test

test-long: ## run the random tests with more repetitions than make test has time for
	@go test -count=1 -timeout 60m -run 'Silence$$' ./server/group -silence-seeds 3000
	@go test -count=1 -timeout 60m -run '^TestModelOverGRPC$$' ./conformance/model -grpc-seqs 1000
	@go test -count=1 -timeout 60m -run '^Test(Histories|FailOverCalls)$$' ./conformance/rings -histories 60000
	@go test -count=1 -timeout 60m -run '^TestRateOfUnits$$' ./server -rate-seconds 60
	@go test -count=1 -timeout 60m -run '^Test(CheckpointsInSteps|DamageInNext|EveryBitFlip|EveryFailure)' ./raftstore -thorough
	@go test -count=1 -timeout 60m -run 'MembershipHistories$$' ./raftstore -thorough

LINT = $(TOOLBIN)/golangci-lint
# BASE is the commit that a change is compared with: where it left main or, on main, the commit before.
BASE = $(shell base=$$(git merge-base HEAD main 2>/dev/null); [ "$$base" != "$$(git rev-parse HEAD)" ] && echo $$base || git rev-parse HEAD~1)
lint: tools ## check formatting, and the linters of .golangci.yml in all modules; long lines only where they changed
	@unformatted="$$(gofmt -l .)"; if [ -n "$$unformatted" ]; then echo "not formatted, run gofmt -w on:" $$unformatted >&2; exit 1; fi
	@for module in . $(COMPAT) $(SUITES) $(DOUBLES) $(MEASURES) $(TOOLS); do (cd $$module && $(LINT) run ./...) || exit 1; done
	@$(LINT) run --enable-only lll --new-from-rev "$(BASE)" ./...
	@GOOS=windows go vet ./server/standin # which others start in their tests there

generate: tools ## make the Go code of the .proto files and the third-party notices anew
	@$(TOOLBIN)/protogen -plugin $(PROTO_PLUGINS) . $(PROTOS)
	@$(TOOLBIN)/notices $(NOTICES) ./cmd/coordd ./cmd/coordd-standin

generate-check: tools ## fail if the generated code is not that of the .proto files, or the notices are not those of the modules
	@$(TOOLBIN)/protogen -check -plugin $(PROTO_PLUGINS) . $(PROTOS)
	@$(TOOLBIN)/notices -check $(NOTICES) ./cmd/coordd ./cmd/coordd-standin

# Some tests build and start the binary, which the test cache does not see: hence
# -count=1, here and below.
# The pure packages know no goroutine (conformance/architecture_test.go sees to that), so there is nothing to race, and
# without the detector their random tests take a fifth of the time. Those of their tests that start goroutines run with it.
PURE := ./coordination/... ./scheme/... ./conformance/model ./conformance/rings ./conformance/ratchets
PURE_RACED := -run '^Test(DescriptionsDoNotChange|ModelOverGRPC)$$' ./coordination ./conformance/model
# REPLAYED are the tests of ./conformance that replay the transcripts on these packages alone, or on a program without the
# detector, with what TestServer replays them with under it.
REPLAYED := ^Test(Pure.*|Binary)$$
# SIMULATED are tests of ./server/group in which one goroutine plays all clients and servers, on a clock of its own; each sees
# to it that it starts no other (oneGoroutine).
SIMULATED := ^Test(FriendlySilence|FrozenServer|LostServer|NothingIsKept|OrphansAreSilent|Silence|SilenceOfATransfer)$$
# SIZED run without the detector, too: tests of ./server whose subject is how many bytes or rows there may be, and tests of
# ./raftstore that repeat something some hundred times. With it they take two to nine times as long. Some only read damaged
# files, or know one goroutine; smaller tests of ./server run the same code with it, and what the store's repeat runs with it in
# TestEveryFailureEndsTheStore (the life of a store, cut short at each step), TestManyProposersWithCheckpointsUnderWay,
# TestASlowHandlerIsNoSlowDisk, TestCheckpointBegunDuringAnInstallation, TestLaggingMemberCatchesUpFromTheLog and
# TestLargeMessageOfAStranger. The histories of membership run in virtual time, on one goroutine; what they drive runs with it in
# TestRestartedMembersKnowTheirCluster.
SIZED := ^Test(MembershipHistories|RandomMembershipHistories|CheckpointsInSteps|CrashAtEveryStep|CrashWhileReceivingACheckpoint|DamageInNextIsFound|DamagedBackupIsRefused|DescribeFitsClients|EveryBitFlipIsFoundOrHarmless|FollowerCopiesAreBounded|FollowerWaitsForASlowLeader|HandlerThatDoesNotApplyHoldsBackTheLog|LagIsBounded|LargeAnswersAreGivenBack|LongDescriptions|ManyInspectedResources|OversizedMessages|PowerLossDuringLogWrite|SmallDisk)$$
# MIXED are the packages of the three above: the rest of their tests run with the detector.
MIXED := ./conformance ./server ./server/group ./raftstore
# DRIVERS only drive the program, which is built without the detector: what it would watch are the tests themselves. CI has
# it watch them as well, by an empty DRIVERS.
DRIVERS := ./conformance/crash ./conformance/abuse
# TESTED lists packages that have tests.
TESTED := go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}'
# LONGEST begin first, the longest of them foremost, lest a processor idles in the end.
LONGEST := ./server ./conformance ./raftstore ./cmd/coordd ./cmd/coordd-standin ./server/standin ./server/group ./server/standin/faults
# The drivers mostly wait for the program, so they run beside the others; so do the tests of what is pure or large, as filler.
go-test: build ## run the server's tests
	@failed=; drivers=; $(if $(DRIVERS),$(GO_TEST_PURE) $(KEPT)pure/ $(PARALLEL) $(DRIVERS) & drivers=$$!;) \
	{ of=0; $(FILLER) env $(GO_TEST_PURE) $(KEPT)pure/ $(PURE) || of=$$?; \
		$(FILLER) env $(GO_TEST_PURE) $(KEPT)pure/ $(PARALLEL) -run '$(REPLAYED)|$(SIMULATED)|$(SIZED)' \
			$(MIXED) || of=$$?; \
		$(if $(RACE),$(FILLER) env $(GO_TEST) $(KEPT)raced/ $(PURE_RACED) || of=$$?;) exit $$of; } & filler=$$!; \
	packages="$$($(TESTED) ./... | grep -vxF "$$(go list $(PURE) $(LONGEST) $(DRIVERS))")" || failed=yes; \
	$(GO_TEST) $(KEPT)raced/ -skip '$(REPLAYED)|$(SIMULATED)|$(SIZED)' $(LONGEST) $$packages || failed=yes; \
	wait $$filler || failed=yes; [ -z "$$drivers" ] || wait $$drivers || failed=yes; [ -z "$$failed" ]

# Some look at files of other modules, which the test cache does not see.
tools-test: ## run the tests of the generators
	@cd $(TOOLS) && go test -vet=off -count=1 $(KEPT)tools/ ./...

measures-test:
	@cd $(MEASURES) && go test -vet=off -count=1 ./...

compat: build ## run the tests on the unmodified Go SDK, against bin/coordd and in their own process, and the SDKs' own tests
	@$(MAKE) --no-print-directory compat-test compat-check

compat-results: compat-found ## run the SDKs' own tests, and write what passed to compat/results.tsv and docs/sdks.md
	@$(TOOLBIN)/sdks -keep "$(ABSENT)" $(RESULTS) $(SDKS_PAGE) $(FOUND) $(FOUND_AS_WELL)

compat-check: compat-found
	@$(TOOLBIN)/sdks -check $(RESULTS) $(SDKS_PAGE) $(FOUND) $(FOUND_AS_WELL)

# FOUND is what each of the RESULTS_OF, by its target compat-NAME, writes to the file that COMPAT_RESULTS names. The results are
# not complete without them; AS_WELL are suites that hardly any machine has the SDK for, ABSENT is what that is called there.
RESULTS_OF := upstream js doubles
AS_WELL    := cpp
ABSENT     := C++, programs on the SDK's public API
RESULTS    := compat/results.tsv
SDKS_PAGE  := docs/sdks.md
FOUND      := $(RESULTS_OF:%=bin/compat/%.tsv)
FOUND_AS_WELL = $$(ls $(AS_WELL:%=bin/compat/%.tsv) 2>/dev/null || true)
compat-found: build tools
	@rm -rf bin/compat && mkdir -p bin/compat
	@for name in $(RESULTS_OF) $(AS_WELL); do \
		COMPAT_RESULTS=$(CURDIR)/bin/compat/$$name.tsv $(MAKE) --no-print-directory compat-$$name || exit 1; done

compat-test:
	@for module in $(COMPAT); do (cd $$module && $(GO_TEST) $(KEPT)$$module/ ./...) || exit 1; done

compat-upstream: build ## run the Go SDK's own integration tests against bin/coordd, and print what passed
	@cd compat/go/upstream && COORDD_BIN=$(CURDIR)/bin/coordd go test -count=1 -timeout $(TEST_TIMEOUT) -v .

compat-js: build ## run the tests in JavaScript on the SDK's packages (compat/js), where there is Node.js
	@COORDD_BIN=$(CURDIR)/bin/coordd compat/js/run

compat-cpp: build ## run the programs on the C++ SDK (compat/cpp), where that is installed
	@COORDD_BIN=$(CURDIR)/bin/coordd compat/cpp/run

# They mostly wait, so many run at a time.
compat-doubles: build ## run doubles of the SDKs for C++, Java, Python, Rust and .NET against bin/coordd, and print what they show
	@cd $(DOUBLES) && COORDD_BIN=$(CURDIR)/bin/coordd go test -vet=off -count=1 -parallel 24 -timeout 10m -v . | \
		grep -v '^ *\(=== \|--- PASS\)'

doubles-soak: build ## the same doubles and the Go SDK at once on three servers that hand over and are killed, for DOUBLES_SOAK (30m)
	@cd $(DOUBLES) && DOUBLES_SOAK=$(DOUBLES_SOAK) COORDD_BIN=$(CURDIR)/bin/coordd go test -count=1 -timeout 24h -v -run '^TestLeaderChanges$$' .

crash-test: build ## kill and restart a server under load CRASH_ROUNDS times
	@listed="$$(go test -list '^TestCrash' $(CRASH_PACKAGES))" && grep -q '^TestCrash' <<<"$$listed" || \
		{ echo "no crash test in $(CRASH_PACKAGES): $$listed" >&2; exit 1; }
	@COORDD_BIN=$(CURDIR)/bin/coordd CRASH_ROUNDS=$(CRASH_ROUNDS) $(RACE_ENV) go test $(RACE) -count=1 -timeout 60m -run '^TestCrash' $(CRASH_PACKAGES)

lock-test: build ## have LOCKS (200) `coordd lock` wait for one lock on three servers with faults, and end locks in every way
	@LOCKS=$(LOCKS) COORDD_BIN=$(CURDIR)/bin/coordd $(RACE_ENV) go test $(RACE) -count=1 -timeout 60m -v -run '^TestLock' ./cmd/coordd

malformed-test: ## open MALFORMED_STREAMS broken streams beside good sessions (MALFORMED_SEED varies them)
	@MALFORMED_STREAMS=$(MALFORMED_STREAMS) MALFORMED_SEED=$(MALFORMED_SEED) $(RACE_ENV) go test $(RACE) -count=1 -timeout 60m -v -run '^TestMalformedStreams$$' ./server

cluster-test: build ## have all kinds of faults happen to a cluster of three under load, CLUSTER_ROUNDS times each (CLUSTER_FAULT picks one)
	@COORDD_BIN=$(CURDIR)/bin/coordd CLUSTER_ROUNDS=$(CLUSTER_ROUNDS) CLUSTER_SAMPLES=$(CLUSTER_SAMPLES) go test -v -count=1 -timeout 300m -run '^TestCluster' ./conformance/crash

abuse-test: build ## attack a server in every way there is, each for ABUSE_SECONDS (10)
	@COORDD_BIN=$(CURDIR)/bin/coordd ABUSE_SECONDS=$(ABUSE_SECONDS) go test -v -count=1 -timeout 60m -run 'Abuse$$' ./conformance/abuse

upgrade-test: build ## replace the programs of three servers under load, one after the other: those of an older commit by this one
	@COORDD_BIN=$(CURDIR)/bin/coordd UPGRADE_TEST=1 go test -v -count=1 -timeout 60m -run '^TestUpgrade$$' ./conformance/crash

fuzz-short: ## run every fuzz target for FUZZ_TIME
	@packages="$$(go list $(FUZZ_PACKAGES))" || exit 1; for package in $$packages; do \
		listed="$$(go test -list '^Fuzz' $$package)" || { echo "$$listed"; exit 1; }; \
		for target in $$(grep '^Fuzz' <<<"$$listed" || true); do \
			echo "$$package $$target"; \
			output="$$(go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZ_TIME) -fuzzminimizetime 10x $$package 2>&1)" || { echo "$$output"; exit 1; }; \
			echo "$$output" | tail -n 1; \
		done; \
	done

fuzz: FUZZ_TIME = 30s
fuzz: fuzz-short ## run every fuzz target for 30 s, or for FUZZ_TIME

.PHONY: bin/bench bin/etcd
bin/bench: # the go command sees whether it has to be built anew
	@cd $(MEASURES) && go build -o $(CURDIR)/bin/bench .

# etcd's server is built with the versions that it was made for, so it has a module of its own.
bin/etcd:
	@cd $(MEASURES)/etcd && go build -trimpath -o $(CURDIR)/bin/etcd go.etcd.io/etcd/server/v3

bench: build bin/bench ## measure the server beside the machine's floor and a stub, and run the Go benchmarks (docs/benchmarks.md)
	@bin/bench -peers none -only W1,W2,W3,W4,W5,W1x3 -runs $(BENCH_COUNT) -seconds 3
	@go test -run '^$$' -bench '$(BENCH)' -benchmem -count $(BENCH_COUNT) -timeout 60m $(BENCH_PACKAGES)

bench-watched: build bin/bench ## measure what it costs a server to be watched (AGAINST=PROGRAM to compare with an older one as well)
	@bin/bench -measure watched -runs 10 -seconds 6 -n 256 $(if $(AGAINST),-against $(abspath $(AGAINST)))

bench-stub: build bin/bench ## measure the server beside a stub without log, in turns (AGAINST=PROGRAM to compare with an older one as well)
	@bin/bench -peers none -only W1,W2,W3,W5 -runs 5 -seconds 3 $(if $(AGAINST),-against $(abspath $(AGAINST)))

bench-limiter: build bin/bench ## measure acquires of a rate limiter beside an empty gRPC server, through the leader and another server
	@bin/bench -measure limiter -runs 5 -seconds 3 -n 64

bench-peers: build bin/bench bin/etcd ## measure the server beside etcd, ZooKeeper and Redis in turns (PEERS_ARGS), and write it into docs/benchmarks.md
	@bin/bench -page docs/benchmarks.md $(PEERS_ARGS)

bench-chaos: build bin/bench bin/etcd ## measure for what share of the time coordd and etcd have a leader, beside busy processes and faults (CHAOS=10m)
	@bin/bench -measure chaos -chaos $(or $(CHAOS),10m)

bench-open: build bin/bench ## measure latencies at given rates on a quiet machine (OPEN_ARGS), and write them into docs/benchmarks.md
	@bin/bench -measure open -seconds 60 -page docs/benchmarks.md $(OPEN_ARGS)

bench-scaling: build bin/bench ## measure beside up to a million semaphores, 50,000 sessions and so on (SCALING_ARGS), and write it into docs/scaling.md
	@bin/bench -measure scaling -page docs/scaling.md -targets docs/benchmarks.md -seconds 2 $(SCALING_ARGS)

fuzz-model: ## compare the rings with the reference model on SEQS random sequences
	@go test ./conformance/model -count=1 -timeout 60m -run '^TestModel$$' -seqs $(SEQS)

conformance: ## replay the transcripts on all local targets: pure, stored, with leader changes, server, server with users, binary, cluster
	@CLUSTER_FULL=1 go test ./conformance -count=1 -timeout 30m \
		-run '^Test(Pure|PureStored|PureFailOver|FailOverExemptions|Server|GuardedServer|Binary|Cluster|ClusterInTime|ClusterFailOver|ClusterRestless|Map|Differences)$$'

conformance-map: ## print which scripts and tests show which rule; fails on a rule without one
	@cd conformance && go test -count=1 -run '^TestMap$$' -map

review-tests: build ## run the tests of everything that outside reviews found (conformance/findings.txt)
	@COORDD_BIN=$(CURDIR)/bin/coordd go test ./conformance -count=1 -timeout 60m -run '^TestFindings$$' -findings

mutation-test: ## put defects into package coordination, one at a time, and want the suite to find each (10 minutes)
	@go run ./conformance/mutation

differences: ## write docs/differences.md anew from the scripts
	@go test ./conformance -count=1 -run '^TestDifferences$$' -write-differences

# The context of the image is a folder of its own, with nothing in it to send but the program and its licences. The folder of its volumes is for their
# owner alone, as they will be.
docker-context:
	@rm -rf bin/docker && mkdir -p bin/docker && mkdir -m 0700 bin/docker/data
	@cp LICENSE $(NOTICES) bin/docker/
	@CGO_ENABLED=0 GOOS=$(word 1,$(subst /, ,$(PLATFORM))) GOARCH=$(word 2,$(subst /, ,$(PLATFORM))) $(GO_BUILD) \
		-o bin/docker/ ./cmd/coordd ./cmd/coordd-standin

DOCKER_BUILD = for image in coordd coordd-standin; do docker build --quiet --platform $(PLATFORM) --build-arg VERSION=$(VERSION) \
	--file docker/Dockerfile --target $$image --tag $(IMAGE)$${image\#coordd} bin/docker || exit 1; done

docker-image: docker-context ## build the container images IMAGE and IMAGE-standin for PLATFORM (docs/docker.md)
	@$(DOCKER_BUILD)
	@docker image inspect --format '{{index .RepoTags 0}}: {{.Os}}/{{.Architecture}}, {{.Size}} bytes' $(IMAGE) $(IMAGE)-standin

# The engine may be in a network of its own, so everything that may have to be fetched is built before it starts.
docker-test: IMAGE = coordd-test
docker-test: docker-context ## build the image and test it and the compose files; as root it brings its own engine up where dockerd is installed
	@go test -c -o bin/docker.test ./docker
	@cd $(TESTCONTAINERS) && go vet ./... && go test -c -o $(CURDIR)/bin/testcontainers.test .
	@docker/with-engine bash -euo pipefail -c '$(DOCKER_BUILD) && cd docker && export COORDD_IMAGE=$(IMAGE) COORDD_STANDIN_IMAGE=$(IMAGE)-standin && \
		../bin/docker.test -test.v -test.timeout 10m && TESTCONTAINERS_RYUK_DISABLED=true ../bin/testcontainers.test -test.v -test.timeout 5m'

tools: # build the pinned tools; the build cache makes a repetition cheap
	@cd $(TOOLS) && go build -buildvcs=false -o $(TOOLBIN)/ ./protogen ./notices ./sdks \
		github.com/golangci/golangci-lint/v2/cmd/golangci-lint google.golang.org/protobuf/cmd/protoc-gen-go google.golang.org/grpc/cmd/protoc-gen-go-grpc

race-note: # said before and after all tests, so that nobody overlooks it
	@:
ifndef RACE
	@echo '**********************************************************************' >&2
	@echo '*  NO C COMPILER: the tests run WITHOUT the race detector (-race).   *' >&2
	@echo '*  Install gcc and the C library headers to have it.                 *' >&2
	@echo '**********************************************************************' >&2
endif

clean: ## remove what was built
	@rm -rf bin
