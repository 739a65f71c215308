package server

import (
	"fmt"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/coordination/codec"
	"github.com/coordd/coordd/server/adminpb"
)

// present asks a server for the version of the settings' data.
func (c *testCluster) present(i int) *adminpb.Version { return c.versions(i, false).GetPresent() }

// versions asks a server for the versions of the settings' data.
func (c *testCluster) versions(i int, former bool) *adminpb.VersionsResponse {
	c.t.Helper()
	answer, err := adminpb.NewInspectClient(c.conns[i]).Versions(c.t.Context(),
		&adminpb.VersionsRequest{Path: testNode, Name: []byte("settings"), Former: former})
	if err != nil {
		c.t.Fatal(err)
	}
	return answer
}

// race has a client of each server update the data of one version at a time, and returns what the winner wrote.
func (c *testCluster) race(round int, expected uint64) string {
	c.t.Helper()
	codesOf := make([]codes.Code, len(c.conns))
	var racing sync.WaitGroup
	for i, conn := range c.conns {
		racing.Go(func() {
			_, err := adminpb.NewInspectClient(conn).UpdateData(c.t.Context(), &adminpb.UpdateDataRequest{
				Path: testNode, Name: []byte("settings"), Data: fmt.Appendf(nil, "%d of %d", i, round),
				Expected: expected})
			codesOf[i] = status.Code(err)
		})
	}
	racing.Wait()
	winner := ""
	for i, code := range codesOf {
		switch {
		case code == codes.OK && winner == "":
			winner = fmt.Sprintf("%d of %d", i, round)
		case code != codes.Aborted:
			c.t.Fatalf("round %d: the updates of version %d end with %v", round, expected, codesOf)
		}
	}
	if winner == "" {
		c.t.Fatalf("round %d: no update of version %d wins: %v", round, expected, codesOf)
	}
	return winner
}

// TestOneUpdateOfAVersionWins: of updates of one version through all servers at a time one wins, and all servers show
// its data, also after the leadership was handed over.
func TestOneUpdateOfAVersionWins(t *testing.T) {
	c := startCluster(t, 3)
	c.awaitFormat(codec.Version)
	leader, follower := c.leader()
	c.createNode(leader, testNode)
	version := uint64(0)
	for round := range 6 {
		won := c.race(round, version)
		for i := range c.conns {
			v := c.present(i)
			if string(v.GetData()) != won || version != 0 && v.GetVersion() != version+1 {
				t.Fatalf("round %d, server %d: %v, want %q of version %d", round, i, v, won, version+1)
			}
		}
		version = c.present(0).GetVersion()
		if round == 2 {
			c.leadWith(follower)
		}
	}
}

// aSecondEach makes a second of the log pass with each entry, so that each version lasts for long enough to be
// remembered.
func aSecondEach(c *Config) {
	c.hooks.Executed = func(m *coordination.Machine, e *coordination.Entry) {
		e.StampMillis = max(e.StampMillis, m.StampMillis()+1000)
	}
}

// TestFormerVersionsOfAllServers: what one server has forgotten another one knows.
func TestFormerVersionsOfAllServers(t *testing.T) {
	c := startClusterWith(t, 3, aSecondEach)
	c.awaitFormat(codec.Version)
	leader, follower := c.leader()
	c.createNode(leader, testNode)
	inspect := adminpb.NewInspectClient(c.conns[leader])
	if _, err := inspect.SetHistory(t.Context(),
		&adminpb.SetHistoryRequest{Path: testNode, History: adminpb.History_DATA}); err != nil {
		t.Fatal(err)
	}
	won := c.race(0, 0)
	first := c.versions(leader, true)
	if len(first.GetFormer()) != 0 || first.GetHistory() != adminpb.History_DATA {
		t.Errorf("at first: %v", first)
	}
	version := first.GetPresent().GetVersion()
	c.race(1, version)
	for i := range c.conns {
		c.eventually("every server to have all", func() bool { return len(c.versions(i, true).GetUnknown()) == 0 })
		if former := c.versions(i, true).GetFormer(); len(former) != 1 || string(former[0].GetData()) != won ||
			former[0].GetVersion() != version || former[0].GetWithoutData() {
			t.Errorf("server %d: %v, want %q of version %d", i, former, won, version)
		}
	}
	c.stop(follower)
	if unknown := c.versions(leader, true).GetUnknown(); len(unknown) != 1 {
		t.Errorf("with a server down: %v", unknown)
	}
	if _, err := inspect.SetHistory(t.Context(), &adminpb.SetHistoryRequest{Path: testNode}); err != nil {
		t.Fatal(err)
	}
	if former := c.versions(leader, true).GetFormer(); len(former) != 1 || !former[0].GetWithoutData() {
		t.Errorf("data that is not to be kept is there: %v", former)
	}
}
