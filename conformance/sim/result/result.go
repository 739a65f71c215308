// Package result is the last line that the program of one seed prints, between that program and the one that runs many
// of them.
package result

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime/coverage"
	"runtime/pprof"

	"github.com/coordd/coordd/conformance/sim/plan"
)

// Verdict is the outcome of a run.
type Verdict string

// The verdicts. A program that ends without any, or not at all, has failed as well.
const (
	OK     Verdict = "ok"
	Broken Verdict = "violation"
	Unable Verdict = "cannot run" // the simulation's own fault, such as a plan that cannot be read
)

// ExitCode returns the exit code of a program with the verdict.
func (v Verdict) ExitCode() int {
	switch v {
	case OK:
		return 0
	case Broken:
		return 1
	}
	return 2
}

// Result describes one run.
type Result struct {
	Seed       uint64           `json:"seed"`
	Profile    string           `json:"profile,omitzero"` // of the plan
	Verdict    Verdict          `json:"verdict"`
	Violations []string         `json:"violations,omitempty"`
	Hash       string           `json:"hash"`             // of everything that happened, in order
	Counts     map[string]int64 `json:"counts,omitempty"` // such as requests and segments; faults as "fault KIND"
	Marks      map[string]int64 `json:"marks,omitempty"`  // how often each known mark was reached, 0 included
	Virtual    plan.Duration    `json:"virtual"`
	CPU        plan.Duration    `json:"cpu"`
}

// Exit prints the result and ends the program, from wherever it is called. Programs that are built to measure their
// coverage leave that in the folder that the environment names.
func (r Result) Exit() {
	r.CPU = plan.Duration(cpu())
	pprof.StopCPUProfile() // of -test.cpuprofile
	if folder := os.Getenv("GOCOVERDIR"); folder != "" {
		if err := write(folder); err != nil {
			fmt.Fprintln(os.Stderr, "coverage:", err)
		}
	}
	if err := r.Print(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "result:", err)
		os.Exit(Unable.ExitCode())
	}
	os.Exit(r.Verdict.ExitCode())
}

func write(folder string) error {
	if err := coverage.WriteMetaDir(folder); err != nil {
		return err
	}
	return coverage.WriteCountersDir(folder)
}

// Print writes the result as one line.
func (r Result) Print(w io.Writer) error {
	line, err := json.Marshal(r)
	if err == nil {
		_, err = fmt.Fprintf(w, "%s\n", line)
	}
	return err
}

// Parse returns the result in the last line of a program's output, and reports whether there is one.
func Parse(output []byte) (Result, bool) {
	output = bytes.TrimRight(output, "\n")
	line := output[bytes.LastIndexByte(output, '\n')+1:]
	var r Result
	if err := json.Unmarshal(line, &r); err != nil || r.Verdict == "" {
		return Result{}, false
	}
	return r, true
}
