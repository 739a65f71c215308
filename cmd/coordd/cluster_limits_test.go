package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/exit"
	"github.com/coordd/coordd/server/adminpb"
	"github.com/coordd/coordd/server/statelimit"
)

// TestClusterLimits shows the limit that a server has given its cluster, and sets another.
func TestClusterLimits(t *testing.T) {
	a := newClusterProcess(t, "a")
	a.start(t, "--initial-cluster", "a="+a.peer, "--state-limit", "4MiB")
	a.ready(t)
	told := func() (now limitsShown) {
		t.Helper()
		if err := json.Unmarshal([]byte(a.cluster(t, exit.OK, "limits", "-o", "json")), &now); err != nil {
			t.Fatal(err)
		}
		return now
	}
	// set when the server knows that it is the only one
	for deadline := time.Now().Add(waitMax); told().StateLimit == nil; {
		if time.Now().After(deadline) {
			t.Fatal("the limit is never set")
		}
	}
	inOrder(t, a.cluster(t, exit.OK, "limits"),
		[]string{"the state is limited to 4 MiB, ", "are used, ", "are left",
			"names and data of one coordination node: 1 GiB at most"})
	if now := told(); now.Server != "a" || *now.StateLimit != 4<<20 || now.StateUsed == 0 ||
		*now.StateHeadroom != *now.StateLimit-now.StateUsed ||
		now.ConfiguredHere != 4<<20 {
		t.Errorf("the limits are %+v", now)
	}
	inOrder(t, a.cluster(t, exit.OK, "limits", "--state", "8MiB"),
		[]string{"the state is limited to 8 MiB",
			"asked a: started with --state-limit=4 MiB, which does not count"})
	if now := a.status(t); now.Limits == nil || *now.Limits.StateLimit != 8<<20 {
		t.Errorf("the status has the limits %+v", now.Limits)
	}
	inOrder(t, a.cluster(t, exit.OK, "status"),
		[]string{"format version", "the state is limited to 8 MiB", "NAME"})
	inOrder(t, a.cluster(t, exit.OK, "limits", "--state", "unlimited"), []string{"the state is unlimited"})
	if now := told(); !now.Unlimited || now.StateLimit != nil || now.StateHeadroom != nil {
		t.Errorf("the limits are %+v", now)
	}
	coordd(t, exit.Usage, []string{"cluster", "limits", "--state", "1023KiB", "--endpoint", a.endpoint},
		"--state", "1MiB")
}

func TestLimitsText(t *testing.T) {
	for _, c := range []struct {
		now  *adminpb.LimitsStatus
		want string
	}{
		{&adminpb.LimitsStatus{StateUsedBytes: 48 << 10}, "the state has no limit yet, 48 KiB are used\n" +
			"names and data of one coordination node: 0 bytes at most\n"},
		{&adminpb.LimitsStatus{StateLimitBytes: 384 << 20, StateUsedBytes: 100<<20 + 1,
			NodeLimitBytes: 1 << 30, ServerName: "a",
			MemoryBytes: 512 << 20, MemorySource: "GOMEMLIMIT"},
			"the state is limited to 384 MiB, 100 MiB are used, 283 MiB are left\n" +
				"names and data of one coordination node: 1 GiB at most\n" +
				"asked a: 512 MiB of memory (GOMEMLIMIT), LESS THAN TWICE THE LIMIT: it may run out of memory " +
				"before\n"},
		{&adminpb.LimitsStatus{StateLimitBytes: 2 << 20, StateUsedBytes: 3 << 20, NodeLimitBytes: 1 << 30,
			MemoryBytes:  4 << 20,
			MemorySource: "memory of the machine", ConfiguredBytes: statelimit.Unlimited},
			"the state is limited to 2 MiB, 3 MiB ARE USED: nothing new is accepted\n" +
				"names and data of one coordination node: 1 GiB at most\n" +
				"asked this server: started with --state-limit=unlimited, which does not count\n" +
				"asked this server: 4 MiB of memory (memory of the machine)\n"},
	} {
		var text strings.Builder
		if printLimits(&text, c.now); text.String() != c.want {
			t.Errorf("got %q\nwant %q", text.String(), c.want)
		}
	}
}
