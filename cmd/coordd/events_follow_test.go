package main

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coordd/coordd/internal/exit"
	"github.com/coordd/coordd/server/adminpb"
)

// eventServer has five events after its first answer, and refuses after its third.
type eventServer struct {
	adminpb.UnimplementedInspectServer
	asked atomic.Uint64
}

func (s *eventServer) Events(_ context.Context, r *adminpb.EventsRequest) (*adminpb.EventsResponse, error) {
	answer := &adminpb.EventsResponse{}
	number := s.asked.Add(1)
	switch {
	case number == 1:
		return answer, nil
	case r.GetAfter().GetIndex() == 5 && r.GetBefore() == nil:
		return nil, status.Error(codes.Internal, "enough")
	}
	for index := uint64(5); index > r.GetAfter().GetIndex(); index-- {
		switch {
		case r.GetBefore() != nil && index >= r.GetBefore().GetIndex():
		case len(answer.GetEvents()) == int(r.GetLimit()):
			answer.More = true
			return answer, nil
		default:
			answer.Events = append(answer.Events, &adminpb.Event{Kind: adminpb.Event_ADMINISTERED, Index: index,
				Number: 1, Act: "act"})
		}
	}
	return answer, nil
}

// TestFollowShowsAllThatComes: --limit bounds what there was. Of what comes between two questions nothing is left out.
func TestFollowShowsAllThatComes(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	adminpb.RegisterInspectServer(server, &eventServer{})
	go func() { _ = server.Serve(listener) }()
	defer server.Stop()
	r := newRun(newFakeServer())
	r.run([]string{"events", "-f", "--limit", "2", "--endpoint", "grpc://" + listener.Addr().String() + "/local"})
	if shown := strings.Count(r.out.String(), "act by"); shown != 5 {
		t.Errorf("%d of 5 events that came are shown:\n%s%s", shown, r.out.String(), r.log.String())
	}
}

// TestNotADataDirectory: the directory above the right one has no events, which is no answer to "what happened?".
func TestNotADataDirectory(t *testing.T) {
	above := t.TempDir()
	if err := os.Mkdir(filepath.Join(above, "coordd"), 0o700); err != nil {
		t.Fatal(err)
	}
	r := newRun(newFakeServer())
	if code := r.run([]string{"events", "--data-dir", above}); code == exit.OK {
		t.Errorf("exit code 0: %q %q", r.out.String(), r.log.String())
	}
}

// TestEventsOfNothing: a path that does not exist is no path without events, unless a node that was dropped has some.
func TestEventsOfNothing(t *testing.T) {
	t.Parallel()
	endpoint := spawn(t, "serve", "--listen", "127.0.0.1:0", "--in-memory", "--listen-http", "off").ready(t)
	coordd(t, exit.NotFound, []string{"events", "nosuch", "--endpoint", endpoint}, "/local/nosuch: There is no such")
	does(t, endpoint, "node create dropped")
	coordd(t, exit.OK, []string{"events", "dropped", "--kind", "expired", "--endpoint", endpoint}, "no events")
	does(t, endpoint, "node drop dropped")
	waitFor(t, "the drop", func() bool {
		p := spawn(t, "events", "dropped", "--since", "1h", "--endpoint", endpoint)
		code, lines := p.exit(t)
		return code == exit.OK && strings.Contains(strings.Join(lines, "\n"), "the node was dropped")
	})
}

// TestSessionOfADroppedNode: a node was dropped and made again, so its sessions count from 1 again. What became of the
// first session of the node before is no answer about the present one.
func TestSessionOfADroppedNode(t *testing.T) {
	t.Parallel()
	endpoint := spawn(t, "serve", "--listen", "127.0.0.1:0", "--in-memory", "--listen-http", "off").ready(t)
	show := []string{"session", "show", "app", "1", "--endpoint", endpoint}
	does(t, endpoint, "node create app")
	openLockSession(t, endpoint, "/local/app", "worker", 60_000).next()
	does(t, endpoint, "session kill app 1")
	waitFor(t, "the end of the session", func() bool {
		return strings.Contains(does(t, endpoint, "events app --kind killed"), "session 1")
	})
	coordd(t, exit.NotFound, show, "was killed")
	does(t, endpoint, "node drop app")
	does(t, endpoint, "node create app")
	p := spawn(t, show...)
	if code, _ := p.exit(t); code != exit.NotFound || strings.Contains(p.Logged(), "was killed") {
		t.Errorf("exit code %d: %s", code, p.Logged())
	}
}
