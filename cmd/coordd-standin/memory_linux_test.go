package main

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"sync"
	"testing"

	"github.com/coordd/coordd/conformance/raw"
)

const (
	// maxFreshKiB bounds a stand-in's memory after its start, maxUsedKiB that after ten clients have had a thousand
	// locks: that is to be 30 MiB, too, and is 29.8; two thirds are pages of the binary, of which a kernel may map
	// more.
	maxFreshKiB = 30 << 10
	maxUsedKiB  = 32 << 10
	// maxBinaryBytes bounds each of the binaries of make build, so that the image of coordd stays below 25 MB, and
	// that of the stand-in, which holds both, below 50 MB.
	maxBinaryBytes = 24_800_000
)

// TestStandInTakesLittle memory when it has been used as tests use it, and is small enough for its image.
func TestStandInTakesLittle(t *testing.T) {
	p := spawn(t, nil, "--listen", "127.0.0.1:0", "--listen-http", "127.0.0.1:0")
	address, err := p.Ready()
	if err != nil {
		t.Fatal(err)
	}
	fresh := resident(t, p.PID())
	conns, err := raw.Dial(address, 10)
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close(conns)
	if err := raw.CreateNode(t.Context(), conns[0], "/local/locks"); err != nil {
		t.Fatal(err)
	}
	var clients sync.WaitGroup
	for i, conn := range conns {
		clients.Go(func() {
			s, err := raw.Open(t.Context(), conn, &raw.Start{Path: "/local/locks", TimeoutMillis: 10_000})
			name := fmt.Sprint("lock ", i)
			if err == nil {
				err = s.Create(name, 1)
			}
			for n := 0; n < 100 && err == nil; n++ {
				if err = s.Acquire(name, 1); err == nil {
					err = s.Release(name)
				}
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	clients.Wait()
	used := resident(t, p.PID())
	t.Logf("resident: %d KiB, behind a thousand locks %d KiB", fresh, used)
	if fresh > maxFreshKiB || used > maxUsedKiB {
		t.Errorf("%d KiB are resident, behind a thousand locks %d KiB", fresh, used)
	}
	if os.Getenv("COORDD_STANDIN_BIN") == "" { // the tests' own build has what a debugger needs
		return
	}
	for _, built := range []string{binary, coordd} {
		if file, err := os.Stat(built); err != nil || file.Size() > maxBinaryBytes {
			t.Errorf("%s has %d bytes, %v", built, file.Size(), err)
		}
	}
}

// resident is the part of a process that is in memory, in KiB.
func resident(t *testing.T, pid int) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`VmRSS:\s+(\d+) kB`).FindSubmatch(status)
	if found == nil {
		t.Fatalf("no VmRSS in\n%s", status)
	}
	n, err := strconv.Atoi(string(found[1]))
	if err != nil {
		t.Fatal(err)
	}
	return n
}
