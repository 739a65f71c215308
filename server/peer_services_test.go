package server

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/coordd/coordd/raftstore/peerpb"
)

// TestOnePeerService: servers call each other by one service, whose calls are judged in one place.
func TestOnePeerService(t *testing.T) {
	var got []string
	protoregistry.GlobalFiles.RangeFiles(func(file protoreflect.FileDescriptor) bool {
		name := string(file.Package())
		if strings.HasPrefix(name, "coordd.peer.") || strings.HasPrefix(name, "coordd.relay.") {
			for i := range file.Services().Len() {
				for j := range file.Services().Get(i).Methods().Len() {
					got = append(got, string(file.Services().Get(i).Methods().Get(j).FullName()))
				}
			}
		}
		return true
	})
	slices.Sort(got)
	const peer = "coordd.peer.v1.Peer."
	want := []string{peer + "Ask", peer + "Hello", peer + "Messages", peer + "Open", peer + "Snapshot"}
	if !slices.Equal(got, want) || peerpb.Peer_ServiceDesc.ServiceName+"." != peer {
		t.Errorf("servers call each other by %v, want %v", got, want)
	}
}
