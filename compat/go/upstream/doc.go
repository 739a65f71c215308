// Package upstream runs the integration tests of ydb-go-sdk itself, unchanged, against coordd. Nothing of
// them is copied: they are compiled from the module cache, in the version that go.mod names, and each runs in
// a process of its own with the environment that it expects. The package has only tests; `make
// compat-upstream` runs them and prints what passed.
package upstream
