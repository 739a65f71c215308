package server

import (
	"maps"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/coordd/coordd/raftstore/peerpb"
	"github.com/coordd/coordd/server/clusterpb"
	"github.com/coordd/coordd/server/group/relaypb"
)

// What servers call each other does not change: while a cluster is upgraded they are of two versions.
func TestPeerServicesKeepTheirNames(t *testing.T) {
	type method struct {
		input, output  string
		client, server bool // streams
	}
	got := make(map[string]method)
	for _, service := range []grpc.ServiceDesc{
		peerpb.Peer_ServiceDesc, relaypb.Relay_ServiceDesc, clusterpb.Cluster_ServiceDesc,
	} {
		found, err := protoregistry.GlobalFiles.FindDescriptorByName(
			protoreflect.FullName(service.ServiceName))
		if err != nil {
			t.Fatal(err)
		}
		add := func(name string, client, server bool) {
			m := found.(protoreflect.ServiceDescriptor).Methods().ByName(protoreflect.Name(name))
			got["/"+service.ServiceName+"/"+name] = method{string(m.Input().FullName()),
				string(m.Output().FullName()), client, server}
		}
		for _, m := range service.Methods {
			add(m.MethodName, false, false)
		}
		for _, m := range service.Streams {
			add(m.StreamName, m.ClientStreams, m.ServerStreams)
		}
	}
	const peer, relay, admin = "coordd.peer.v1.", "coordd.relay.v1.", "coordd.admin.v1."
	want := map[string]method{
		"/coordd.peer.v1.Peer/Hello": {peer + "HelloRequest", peer + "HelloResponse", false,
			false},
		"/coordd.peer.v1.Peer/Messages": {peer + "Frame", peer + "Received", true, false},
		"/coordd.peer.v1.Peer/Snapshot": {peer + "Chunk", peer + "Received", true, false},
		"/coordd.relay.v1.Relay/Execute": {relay + "ExecuteRequest", relay + "ExecuteResponse",
			false, false}, "/coordd.relay.v1.Relay/Exchange": {relay + "ToLeader", relay + "FromLeader", true,
			true},
		"/coordd.relay.v1.Relay/Permit": {relay + "PermitRequest", relay + "PermitGrant", true, true},
		"/coordd.relay.v1.Cluster/Status": {admin + "ClusterStatusRequest", admin + "ClusterStatus",
			false, false}, "/coordd.relay.v1.Cluster/Add": {admin + "AddMemberRequest",
			admin + "AddMemberResponse", false, false},
		"/coordd.relay.v1.Cluster/Promote": {admin + "PromoteMemberRequest",
			admin + "PromoteMemberResponse", false, false},
		"/coordd.relay.v1.Cluster/Remove": {admin + "RemoveMemberRequest", admin + "RemoveMemberResponse",
			false, false}, "/coordd.relay.v1.Cluster/TransferLeader": {admin + "TransferLeaderRequest",
			admin + "TransferLeaderResponse", false, false},
	}
	if !maps.Equal(got, want) {
		t.Errorf("servers call each other\n%v, want\n%v", got, want)
	}
}
