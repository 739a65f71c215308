package peers

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coordd/coordd/conformance/testlog"
	"github.com/coordd/coordd/internal/lograte"
)

// The way to a member: each change is logged, and each new cause; repetitions ever more rarely.
func TestReachIsToldOnce(t *testing.T) {
	var log testlog.Buffer
	count := func(text string) int { return strings.Count(log.String(), text) }
	logger := slog.New(slog.NewTextHandler(&log, nil))
	var r reach
	now := time.Unix(1, 0)
	refused := status.Error(codes.Unavailable, "connection refused")
	for range 50 {
		r.tell(logger, now, refused)
		now = now.Add(time.Second)
	}
	if count("cannot connect") != 1 || count("level=WARN") != 1 || count("for=10s") != 1 {
		t.Errorf("one cause is not told once, and once more as a warning after 10 s: %s", log.String())
	}
	now = now.Add(lograte.MaxPause)
	r.tell(logger, now, status.Error(codes.Unauthenticated, "the certificate is another"))
	if count("the certificate is another") != 1 {
		t.Error("another cause was not told")
	}
	now = now.Add(2 * lograte.MaxPause)
	const pairs = 1000
	for n := range pairs {
		r.tell(logger, now, nil)
		r.tell(logger, now, fmt.Errorf("read tcp 127.0.0.1:%d->127.0.0.1:5601: connection reset", n))
		now = now.Add(time.Second)
	}
	if n := count("is lost"); n < 2 || n > 20 {
		t.Errorf("told %d times of %d pairs", n, pairs)
	}
	if count("level=WARN") != 1 {
		t.Error("what comes back at once is a warning")
	}
	// In the end the last line logged is the present state.
	now = now.Add(lograte.MaxPause)
	r.tell(logger, now, refused)
	if r.state.Logged() == reachable {
		t.Error("the last word was that it can be reached")
	}
}
