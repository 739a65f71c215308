package server

import (
	"fmt"
	"slices"
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
	var got []string
	for _, service := range []grpc.ServiceDesc{peerpb.Peer_ServiceDesc, relaypb.Relay_ServiceDesc, clusterpb.Cluster_ServiceDesc} {
		found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(service.ServiceName))
		if err != nil {
			t.Fatal(err)
		}
		described := func(name string, client, server bool) {
			m := found.(protoreflect.ServiceDescriptor).Methods().ByName(protoreflect.Name(name))
			if m.IsStreamingClient() != client || m.IsStreamingServer() != server {
				t.Errorf("%s is described with other streams than it is served with", m.FullName())
			}
			got = append(got, fmt.Sprintf("/%s/%s %t %t %s %s", service.ServiceName, name, client, server, m.Input().FullName(), m.Output().FullName()))
		}
		for _, m := range service.Methods {
			described(m.MethodName, false, false)
		}
		for _, m := range service.Streams {
			described(m.StreamName, m.ClientStreams, m.ServerStreams)
		}
	}
	want := []string{
		"/coordd.peer.v1.Peer/Hello false false coordd.peer.v1.HelloRequest coordd.peer.v1.HelloResponse",
		"/coordd.peer.v1.Peer/Messages true false coordd.peer.v1.Frame coordd.peer.v1.Received",
		"/coordd.peer.v1.Peer/Snapshot true false coordd.peer.v1.Chunk coordd.peer.v1.Received",
		"/coordd.relay.v1.Relay/Execute false false coordd.relay.v1.ExecuteRequest coordd.relay.v1.ExecuteResponse",
		"/coordd.relay.v1.Relay/Exchange true true coordd.relay.v1.ToLeader coordd.relay.v1.FromLeader",
		"/coordd.relay.v1.Cluster/Status false false coordd.admin.v1.ClusterStatusRequest coordd.admin.v1.ClusterStatus",
		"/coordd.relay.v1.Cluster/Add false false coordd.admin.v1.AddMemberRequest coordd.admin.v1.AddMemberResponse",
		"/coordd.relay.v1.Cluster/Promote false false coordd.admin.v1.PromoteMemberRequest coordd.admin.v1.PromoteMemberResponse",
		"/coordd.relay.v1.Cluster/Remove false false coordd.admin.v1.RemoveMemberRequest coordd.admin.v1.RemoveMemberResponse",
		"/coordd.relay.v1.Cluster/TransferLeader false false coordd.admin.v1.TransferLeaderRequest coordd.admin.v1.TransferLeaderResponse",
	}
	if !slices.Equal(got, want) {
		t.Errorf("servers call each other\n%q, want\n%q", got, want)
	}
}
