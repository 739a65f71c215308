// Package page_test runs the Go examples of docs/testing-your-code.md and docs/faults.md as they stand there. The first of
// them is TestLock of the folder above.
package page_test

import (
	"context"
	"log"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"

	"github.com/coordd/coordd/server/standin"
	"github.com/coordd/coordd/server/standin/faults"
)

var shared *standin.Server

func TestMain(m *testing.M) {
	var err error
	if shared, err = standin.Run(context.Background()); err != nil {
		log.Fatal(err)
	}
	code := m.Run()
	shared.Stop()
	os.Exit(code)
}

func TestOne(t *testing.T) {
	s := shared.In(t) // its failures are those of this test; without In they panic
	s.Load("locks\n")
	s.AwaitOwners("locks", "my-lock", 0)
}

func TestTime(t *testing.T) {
	s := standin.Start(t, standin.FakeTime(), standin.Fixture("locks\n"))
	worker, spare := s.Client("locks"), s.Client("locks")
	worker.Acquire("my-lock", standin.Exclusive)
	spare.Queue("my-lock", standin.Exclusive)
	worker.Vanish() // its process dies

	events := s.Advance(time.Minute) // takes milliseconds
	// session expired: session 1 of /local/locks
	// lock granted: session 2, semaphore "my-lock" of /local/locks
	for i, want := range []string{"session expired: session 1 of /local/locks",
		`lock granted: session 2, semaphore "my-lock" of /local/locks`} {
		found := false
		for _, e := range events {
			found = found || strings.HasPrefix(e.String(), want)
		}
		if !found {
			t.Errorf("event %d: want %s among %v", i, want, events)
		}
	}
}

// leading is a stand-in with a leader of jobs.
func leading(t *testing.T) (*standin.Server, *standin.Client) {
	t.Helper()
	s := standin.Start(t, standin.Fixture("jobs\n"))
	leader := s.Client("jobs")
	leader.Acquire("leader", standin.Exclusive)
	return s, leader
}

func TestWhenThingsGoWrong(t *testing.T) {
	s, _ := leading(t)
	s.ExpireSession("jobs", s.AwaitOwners("jobs", "leader", 1)[0].Session)
	s.AwaitOwners("jobs", "leader", 0)
}

func TestWhatHitsNothing(t *testing.T) {
	s, _ := leading(t)
	s.DropStreams(faults.Filter{Node: "jobs", Client: "ydb-java-sdk"}, faults.Clean, faults.MayMiss())
	s.FailNext(faults.Acquire, 2, Ydb.StatusIds_UNAVAILABLE, "", faults.MayMiss())
	s.Reset()
}

// TestPages wants every Go example of the pages to be part of a test here, line by line.
func TestPages(t *testing.T) {
	var tests strings.Builder
	for _, file := range []string{"page_test.go", "../lock_test.go"} {
		tests.WriteString(lines(read(t, file)))
	}
	for _, page := range []string{"testing-your-code.md", "faults.md"} {
		blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(read(t, "../../../../docs/"+page), -1)
		if len(blocks) == 0 {
			t.Errorf("%s has no example", page)
		}
		for _, block := range blocks {
			if !strings.Contains(tests.String(), lines(block[1])) {
				t.Errorf("%s: no test here has the example\n%s", page, block[1])
			}
		}
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// lines are those of a text without the space around them, and without empty ones.
func lines(text string) string {
	var kept strings.Builder
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			kept.WriteString(line + "\n")
		}
	}
	return kept.String()
}
