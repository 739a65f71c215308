package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/big"
	"net"
	"slices"
	"testing"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/coordd/coordd/internal/testmode"
	"github.com/coordd/coordd/raftstore/membership"
	"github.com/coordd/coordd/raftstore/peerpb"
	"github.com/coordd/coordd/raftstore/peers"
	"github.com/coordd/coordd/server/group/relaypb"
	"github.com/coordd/coordd/server/listen"
)

// peer makes a certificate with which a server at an address shows itself to the others.
func (a *testAuthority) peer(name string, at net.IP) {
	a.t.Helper()
	a.issue(name, &x509.Certificate{IPAddresses: []net.IP{at},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}})
}

func (a *testAuthority) peerFiles(name string) listen.PeerFiles {
	return listen.PeerFiles{Certificate: a.path(name + ".pem"), Key: a.path(name + "-key.pem"),
		CA: a.path("ca.pem")}
}

// serialAt is the number of the certificate that a server shows to its peers.
func serialAt(t *testing.T, address string, config *tls.Config) *big.Int {
	t.Helper()
	var conn *tls.Conn
	eventually(t, "a handshake", func() (made bool) {
		var err error
		if conn, err = tls.Dial("tcp", address, config); err != nil {
			t.Log(err)
		}
		return err == nil
	})
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0].SerialNumber
}

// TestPeerCertificates runs a cluster with certificates: what it relays works, strangers are refused although
// their certificates are of the right authority, and certificates are replaced without a restart.
func TestPeerCertificates(t *testing.T) {
	testmode.Long(t)
	a := newAuthority(t)
	a.peer("peer", net.IPv4(127, 0, 0, 1))
	a.peer("elsewhere", net.IPv4(192, 0, 2, 1))
	c := startClusterWith(t, 3, func(config *Config) {
		peers, err := a.peerFiles("peer").Load(nil)
		if err != nil {
			t.Error(err)
		}
		config.Cluster.TLS = peers
	})
	leader, follower := c.leader()
	c.createNode(follower, testNode)
	address := c.initial[c.servers[leader].config.Cluster.Name]

	// A busy machine may take longer for a handshake than a server waits.
	patient, enough := context.WithTimeout(t.Context(), waitMax)
	defer enough()
	dial := func(config *tls.Config) *grpc.ClientConn {
		conn, err := grpc.NewClient("passthrough:///"+address,
			grpc.WithTransportCredentials(credentials.NewTLS(config)))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	answered := grpc.WaitForReady(true)
	hello := func(config *tls.Config) (*peerpb.HelloResponse, codes.Code) {
		answer, err := peerpb.NewPeerClient(dial(config)).Hello(patient, &peerpb.HelloRequest{}, answered)
		return answer, status.Code(err)
	}
	known, got := hello(a.client("peer"))
	members, err := membership.Decode(known.GetMembership())
	if got != codes.OK || err != nil || len(members.Members) != 3 {
		t.Fatalf("a member is told %v: %v, %v", known, got, err)
	}

	// The header names the calling member, and the certificate has to be the one of that member.
	i := slices.IndexFunc(members.Members, func(m membership.Record) bool { return m.ID != known.GetMember() })
	header, err := proto.Marshal(&peerpb.Header{Format: peers.Format, Cluster: known.GetCluster(),
		From: members.Members[i].ID, To: known.GetMember(), Incarnation: members.Members[i].Incarnation})
	if err != nil {
		t.Fatal(err)
	}
	question, err := anypb.New(&relaypb.ExecuteRequest{})
	if err != nil {
		t.Fatal(err)
	}
	call := func(config *tls.Config, options ...grpc.CallOption) codes.Code {
		_, err := peerpb.NewPeerClient(dial(config)).Ask(
			metadata.AppendToOutgoingContext(patient, "coordd-peer-bin", string(header)), question, options...)
		return status.Code(err)
	}
	if got := call(a.client("peer"), answered); got != codes.InvalidArgument { // it has no command
		t.Errorf("a member's call: %v", got)
	}
	if got := call(a.client("elsewhere"), answered); got != codes.Unauthenticated {
		t.Errorf("a stranger's call: %v", got)
	}
	if got := call(a.client("")); got != codes.Unavailable {
		t.Errorf("a call without a certificate: %v", got)
	}

	// A caller of Hello, which needs no header, has to be a member as well.
	a.issue("ops", &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	for _, name := range []string{"elsewhere", "ops"} {
		if answer, got := hello(a.client(name)); got != codes.Unauthenticated {
			t.Errorf("%s is told %v: %v", name, answer, got)
		}
	}

	before := serialAt(t, address, a.client("peer"))
	a.peer("peer", net.IPv4(127, 0, 0, 1))
	c.eventually("the new certificate", func() bool {
		return serialAt(t, address, a.client("peer")).Cmp(before) != 0
	})
	c.stop(follower)
	if err := c.start(follower); err != nil { // connections are made anew
		t.Fatal(err)
	}
	if got := createStatus(t, c.conns[follower], "/local/more"); got != Ydb.StatusIds_SUCCESS {
		t.Errorf("create: %v", got)
	}
}

// TestPeerCertificateFiles names what cannot be used.
func TestPeerCertificateFiles(t *testing.T) {
	a := newAuthority(t)
	a.peer("peer", net.IPv4(127, 0, 0, 1))
	writeFile(t, a.path("empty.pem"), "")
	good := a.peerFiles("peer")
	for name, change := range map[string]func(*listen.PeerFiles){
		"no certificate":    func(f *listen.PeerFiles) { f.Certificate = a.path("missing.pem") },
		"key of another":    func(f *listen.PeerFiles) { f.Key = a.path("ca-key.pem") },
		"no authorities":    func(f *listen.PeerFiles) { f.CA = "" },
		"missing authority": func(f *listen.PeerFiles) { f.CA = a.path("missing.pem") },
		"empty authority":   func(f *listen.PeerFiles) { f.CA = a.path("empty.pem") },
	} {
		files := good
		change(&files)
		var refused *listen.FileError
		if _, err := files.Load(nil); !errors.As(err, &refused) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
