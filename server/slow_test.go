package server

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/coordination/codec"
	"github.com/coordd/coordd/server/adminpb"
)

// TestSlowEverywhere makes requests through all servers of a cluster. Each server lists those of all, the slowest
// first, and names the server that does not answer. One that was started anew lists the others' requests, as theirs.
func TestSlowEverywhere(t *testing.T) {
	c := startClusterWith(t, 3, inRealTime)
	leader, _ := c.leader()
	c.eventually("the servers to know each other's versions",
		func() bool { return c.servers[leader].group.FormatVersion() == codec.Version })
	c.createNode(leader, testNode)
	names := []string{"lock-0", "lock-1", "lock-2"}
	for i, name := range names {
		stream := openTest(t, t.Context(), c.conns[i], start(600_000))
		next(t, stream)
		send(t, stream, wait(1, name))
		next(t, stream)
		send(t, stream, release(2, name))
		next(t, stream)
	}
	ask := func(i int, limit uint32) (*adminpb.SlowResponse, []string) {
		t.Helper()
		answer, err := adminpb.NewInspectClient(c.conns[i]).Slow(t.Context(), &adminpb.SlowRequest{Limit: limit})
		if err != nil {
			t.Fatal(err)
		}
		var found []string
		for n, q := range answer.GetCalls() {
			sum, longest := uint32(0), q.GetStages()[0].GetMicros()
			for _, s := range q.GetStages() {
				sum += s.GetMicros()
				longest = max(longest, s.GetMicros())
			}
			if q.GetSession() == 0 || q.GetServer() == "" || q.GetEndedMillis() == 0 ||
				strings.TrimPrefix(q.GetServer(), "server-") != strings.TrimPrefix(string(q.GetSemaphore()), "lock-") ||
				q.GetWindow().GetEndsMillis() < q.GetEndedMillis() || longest != q.GetStages()[0].GetMicros() ||
				sum > q.GetTotalMicros() || n > 0 && q.GetTotalMicros() > answer.GetCalls()[n-1].GetTotalMicros() {
				t.Errorf("request %d: %v", n, q)
			}
			found = append(found, q.GetKind()+" "+string(q.GetSemaphore())+" "+q.GetPath())
		}
		slices.Sort(found)
		return answer, found
	}
	var want []string
	for _, kind := range []string{"acquire", "release"} {
		for _, name := range names {
			want = append(want, kind+" "+name+" "+testNode)
		}
	}
	for i := range c.servers {
		// an answer may be sent before it is recorded, and the node not be here yet
		c.eventually("all requests", func() bool {
			_, found := ask(i, 0)
			return slices.Equal(found, want)
		})
	}
	if answer, _ := ask(0, 2); len(answer.GetCalls()) != 2 {
		t.Errorf("limited to 2: %v", answer)
	}
	of, err := adminpb.NewInspectClient(c.conns[0]).Slow(t.Context(), &adminpb.SlowRequest{Server: "server-1"})
	if err != nil || len(of.GetCalls()) != 2 || of.GetCalls()[0].GetServer() != "server-1" ||
		of.GetCalls()[0].GetCause() == "" {
		t.Errorf("of one server: %v, %v", of, err)
	}
	c.stop(2)
	c.eventually("the other two to answer in time", func() bool {
		answer, _ := ask(0, 0)
		return len(answer.GetUnknown()) == 1 && strings.Contains(answer.GetUnknown()[0], "does not answer")
	})
	if err := c.start(2); err != nil {
		t.Fatal(err)
	}
	want = slices.DeleteFunc(want, func(found string) bool { return strings.Contains(found, "lock-2") })
	for i := range c.servers {
		c.eventually("the requests of the servers that went on, and no others", func() bool {
			answer, found := ask(i, 0)
			return slices.Equal(found, want) && len(answer.GetUnknown()) == 0
		})
	}
}

// TestSlowNamesAreBounded: what a stranger asks for is kept for an hour, so of a long name only the beginning is kept.
func TestSlowNamesAreBounded(t *testing.T) {
	_, conn := startTest(t, nil)
	stream := openTest(t, t.Context(), conn, start(600_000))
	next(t, stream)
	long := strings.Repeat("n", coordination.MaxSemaphoreNameBytes)
	send(t, stream, release(1, long+strings.Repeat("n", 3<<20)))
	next(t, stream)
	send(t, stream, release(2, long+strings.Repeat("n", 3<<20)))
	next(t, stream)
	answer, err := adminpb.NewInspectClient(conn).Slow(t.Context(), &adminpb.SlowRequest{})
	if err != nil || len(answer.GetCalls()) == 0 {
		t.Fatalf("%v requests, %v", len(answer.GetCalls()), err)
	}
	for _, q := range answer.GetCalls() {
		if string(q.GetSemaphore()) != long {
			t.Errorf("%d bytes of a name", len(q.GetSemaphore()))
		}
	}
}

// TestSlowIsForAdministrators: the names of other people's locks are not for everybody.
func TestSlowIsForAdministrators(t *testing.T) {
	g := startGuarded(t, nil)
	inspect := adminpb.NewInspectClient(g.conn)
	for who, want := range map[string]codes.Code{"alice": codes.PermissionDenied, "root": codes.OK} {
		if _, err := inspect.Slow(g.as("token-of-"+who), &adminpb.SlowRequest{}); status.Code(err) != want {
			t.Errorf("%s: %v", who, err)
		}
	}
}
