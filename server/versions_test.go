package server

import (
	"fmt"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coordd/coordd/coordination/codec"
	"github.com/coordd/coordd/server/adminpb"
)

// present asks a server for the version of the settings' data.
func (c *testCluster) present(i int) *adminpb.Version {
	c.t.Helper()
	answer, err := adminpb.NewInspectClient(c.conns[i]).Versions(c.t.Context(),
		&adminpb.VersionsRequest{Path: testNode, Name: "settings"})
	if err != nil {
		c.t.Fatal(err)
	}
	return answer.GetPresent()
}

// race has a client of each server update the data of one version at a time, and returns what the winner wrote.
func (c *testCluster) race(round int, expected uint64) string {
	c.t.Helper()
	codesOf := make([]codes.Code, len(c.conns))
	var racing sync.WaitGroup
	for i, conn := range c.conns {
		racing.Go(func() {
			_, err := adminpb.NewInspectClient(conn).UpdateData(c.t.Context(), &adminpb.UpdateDataRequest{
				Path: testNode, Name: "settings", Data: fmt.Appendf(nil, "%d of %d", i, round), Expected: expected})
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
