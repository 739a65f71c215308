//go:build linux

package abuse

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/coordination/codec"
	"github.com/coordd/coordd/internal/testserver"
	"github.com/coordd/coordd/raftstore/peerpb"
	"github.com/coordd/coordd/raftstore/peers"
	"github.com/coordd/coordd/server/adminpb"
	"github.com/coordd/coordd/server/group/relaypb"
)

// peerServers are the servers of a cluster, as processes.
type peerServers struct {
	t         *testing.T
	directory string
	port      string // of all for each other: each has a host of its own
	insecure  bool
	servers   []*server
}

const peersPatience = time.Minute

// TestPeersAbuse attacks the peer ports of three servers with the certificate of a stranger, and of a server
// that was removed, in the ways of the review (C1): none of them ends, none has another user or member
// afterwards, and a good client's session lives throughout. The connections of strangers do not pile up.
func TestPeersAbuse(t *testing.T) {
	p := newPeers(t, false)
	for i := range 3 {
		p.begin(i)
	}
	for i := range 3 {
		p.servers[i].await(t)
	}
	client := p.servers[0].startGood(t)
	removed := p.identity(2)
	p.removeLast(client.conn)

	long := 2 * brief
	if text := os.Getenv(secondsVariable); text != "" {
		seconds, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Fatal(err)
		}
		long = time.Duration(seconds * float64(time.Second))
	}
	p.certificate("stranger", "127.0.0.9")
	ctx, cancel := context.WithTimeout(t.Context(), long)
	defer cancel()
	var all sync.WaitGroup
	var stops [2]func() int64
	for i := range 2 {
		stops[i] = p.servers[i].watchMemory()
		for name, who := range map[string]identityOf{"stranger": {removed.Cluster,
			fmt.Sprintf("%016x", rand.Uint64()|1), "0"}, "s2": removed} {
			all.Go(func() { p.attack(ctx, name, who, i) })
		}
		all.Go(func() { silentPeers(ctx, p.peer(i)) })
	}
	all.Wait()
	for i := range 2 {
		peak := stops[i]()
		if err := p.servers[i].alive(peak); err != nil {
			t.Errorf("server %d: %v", i, err)
		}
		t.Logf("server %d: peak %d MiB", i, peak>>20)
	}
	rounds, p99, err := client.lap()
	if err != nil {
		t.Errorf("the good client: %v", err)
	}
	t.Logf("good client: %d rounds, p99 %v", rounds, p99.Round(time.Millisecond))
	var users adminpb.ListResponse
	root := caller{client.conn, goodToken}
	if err := root.manage(t.Context(), "List", &adminpb.ListRequest{}, &users); err != nil ||
		len(users.GetUsers()) != 1 {
		t.Errorf("users %v, %v", users.GetUsers(), err)
	}
	if got := p.members(client.conn); !slices.Equal(got, []string{"s0", "s1"}) {
		t.Errorf("the members are %v", got)
	}
	client.stop()
	p.stop(0, 1)
	for i := range 2 {
		if log := p.servers[i].Logged(); !strings.Contains(log,
			"too many connections to the address for other servers") {
			t.Errorf("server %d says nothing of the connections", i)
		}
	}
}

// TestInsecurePeersAbuse shows the consequence of --insecure-peers in docs/dev/security.md: a caller that reaches the
// port is an administrator, whatever --auth is. The server warns of it at each start.
func TestInsecurePeersAbuse(t *testing.T) {
	p := newPeers(t, true)
	for range 2 {
		p.begin(0)
		p.servers[0].await(t)
		if log := p.servers[0].Logged(); strings.Count(log,
			`level=WARN msg="whoever reaches the port for the other servers`) != 1 {
			t.Errorf("the server does not warn:\n%s", log)
		}
		p.stop(0)
	}
	p.begin(0)
	p.servers[0].await(t)
	clients, err := grpc.NewClient(p.servers[0].address,
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer clients.Close()
	root := caller{clients, goodToken}
	added, err := adminpb.NewClusterClient(clients).Add(root.ctx(t.Context()),
		&adminpb.AddMemberRequest{Name: "s1", PeerAddress: p.peer(1)})
	if err != nil {
		t.Fatal(err)
	}
	conn := p.dial(p.peer(0), "")
	defer conn.Close()
	known, err := peerpb.NewPeerClient(conn).Hello(t.Context(), &peerpb.HelloRequest{})
	if err != nil {
		t.Fatal(err)
	}
	command := codec.AppendCommand(nil, &coordination.AddUser{Name: "evil", PasswordHash: "none",
		Administrator: true})
	answer := &relaypb.ExecuteResponse{}
	err = peers.Ask(withHeader(t.Context(), &peerpb.Header{Format: peers.Format, Cluster: known.GetCluster(),
		From: number(added.GetId()), To: known.GetMember(), Incarnation: 1}), conn,
		&relaypb.ExecuteRequest{Command: command}, answer)
	if err != nil {
		t.Fatalf("%v: a stranger cannot do any more what docs/dev/security.md says", err)
	}
	var users adminpb.ListResponse
	if err := root.manage(t.Context(), "List", &adminpb.ListRequest{}, &users); err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(users.GetUsers(),
		func(u *adminpb.ListResponse_User) bool { return u.GetName() == "evil" && u.GetAdministrator() }) {
		t.Errorf("%v, and the users are %v: a stranger cannot do any more what docs/dev/security.md says", answer,
			users.GetUsers())
	}
	if conns, err := grpc.NewClient(p.servers[0].address,
		grpc.WithTransportCredentials(insecure.NewCredentials())); err == nil {
		defer conns.Close()
		if err := (caller{conns, ""}).manage(t.Context(), "List", &adminpb.ListRequest{},
			&users); err == nil {
			t.Error("the same is allowed on the port for clients")
		}
	}
	p.stop(0)
}

func newPeers(t *testing.T, insecure bool) *peerServers {
	t.Helper()
	p := &peerServers{t: t, directory: t.TempDir(), insecure: insecure,
		servers: make([]*server, 3)}
	_, port, err := net.SplitHostPort(testserver.Address(t))
	if err != nil {
		t.Fatal(err)
	}
	p.port = port
	if err := os.WriteFile(p.path("tokens"), []byte(goodToken+" root\n"+userToken+" user\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p.path("password"), []byte(rootPassword), 0o600); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		p.certificate(fmt.Sprint("s", i), fmt.Sprint("127.0.0.", i+1))
	}
	return p
}

func (p *peerServers) path(name string) string { return filepath.Join(p.directory, name) }

// peer is where a server listens for the others.
func (p *peerServers) peer(i int) string { return fmt.Sprintf("127.0.0.%d:%s", i+1, p.port) }

// certificate makes one with which a server at a host shows itself to others, of the authority that all have.
func (p *peerServers) certificate(name, host string) {
	p.t.Helper()
	testserver.Run(p.t, "cert", "--dir", p.directory, "--peer", name, "--host", host)
}

// begin starts a server, and does not wait for it.
func (p *peerServers) begin(i int) {
	p.t.Helper()
	name := fmt.Sprint("s", i)
	arguments := []string{"--listen", "127.0.0.1:0", "--listen-http", "off", "--data-dir",
		p.path("data-" + name), "--auth", "required", "--token-file", p.path("tokens"), "--initial-admin",
		"root", "--initial-admin-password-file", p.path("password"), "--disk-reserve", "0", "--name", name}
	if p.insecure {
		arguments = append(arguments, "--insecure-peers", "--listen-peer", "0.0.0.0:"+p.port,
			"--advertise-peer", p.peer(i))
	} else {
		var all []string
		for j := range 3 {
			all = append(all, fmt.Sprintf("s%d=%s", j, p.peer(j)))
		}
		arguments = append(arguments, "--listen-peer", p.peer(i), "--initial-cluster", strings.Join(all, ","),
			"--peer-cert", p.path(name+".pem"), "--peer-key", p.path(name+"-key.pem"), "--peer-ca",
			p.path("ca.pem"))
	}
	c := limited(p.t, 256, arguments...)
	c.Env = append(os.Environ(), "GOMEMLIMIT="+strconv.Itoa(memoryLimit/10*9))
	p.servers[i] = &server{Process: testserver.Launch(p.t, c)}
}

func (p *peerServers) stop(which ...int) {
	p.t.Helper()
	var stopping sync.WaitGroup
	for _, i := range which {
		stopping.Go(func() {
			if err := p.servers[i].Stop(); err != nil {
				p.t.Errorf("server %d: %v", i, err)
			}
		})
	}
	stopping.Wait()
}

// identityOf is the identity in a data directory.
type identityOf struct{ Cluster, Member, Incarnation string }

func (p *peerServers) identity(i int) (id identityOf) {
	p.t.Helper()
	text, err := os.ReadFile(filepath.Join(p.path(fmt.Sprint("data-s", i)), "identity.json"))
	if err == nil {
		err = json.NewDecoder(bytes.NewReader(text)).Decode(&id)
	}
	if err != nil {
		p.t.Fatal(err)
	}
	return id
}

// removeLast removes the last server from the cluster. It ends by itself.
func (p *peerServers) removeLast(conn *grpc.ClientConn) {
	p.t.Helper()
	root := caller{conn, goodToken}
	ctx, cancel := context.WithTimeout(root.ctx(p.t.Context()), peersPatience)
	defer cancel()
	if _, err := adminpb.NewClusterClient(conn).Remove(ctx,
		&adminpb.RemoveMemberRequest{Member: "s2"}); err != nil {
		p.t.Fatal(err)
	}
	select {
	case <-p.servers[2].Ended():
	case <-ctx.Done():
		p.t.Fatal("the server that was removed goes on")
	}
}

func (p *peerServers) members(conn *grpc.ClientConn) (names []string) {
	p.t.Helper()
	root := caller{conn, goodToken}
	status, err := adminpb.NewClusterClient(conn).Status(root.ctx(p.t.Context()),
		&adminpb.ClusterStatusRequest{})
	if err != nil {
		p.t.Fatal(err)
	}
	for _, m := range status.GetMembers() {
		names = append(names, m.GetName())
	}
	slices.Sort(names)
	return names
}

// dial connects to a peer port with the certificate of a name, or in plain text without one.
func (p *peerServers) dial(address, name string) *grpc.ClientConn {
	p.t.Helper()
	security := insecure.NewCredentials()
	if name != "" {
		certificate, err := tls.LoadX509KeyPair(p.path(name+".pem"), p.path(name+"-key.pem"))
		if err != nil {
			p.t.Fatal(err)
		}
		authority, err := os.ReadFile(p.path("ca.pem"))
		if err != nil {
			p.t.Fatal(err)
		}
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(authority)
		security = credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{certificate}, RootCAs: pool,
			MinVersion: tls.VersionTLS13})
	}
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(security))
	if err != nil {
		p.t.Fatal(err)
	}
	return conn
}

// number is an id as people write it.
func number(text string) uint64 {
	n, _ := strconv.ParseUint(text, 16, 64)
	return n
}

// withHeader is the context of a call that claims to be of a member.
func withHeader(ctx context.Context, h *peerpb.Header) context.Context {
	encoded, _ := proto.Marshal(h)
	return metadata.AppendToOutgoingContext(ctx, "coordd-peer-bin", string(encoded))
}

// attack sends to a server, over and over, messages that might stop it or be taken for another server's.
func (p *peerServers) attack(ctx context.Context, name string, who identityOf, at int) {
	target := p.identity(at)
	header := func(to string) *peerpb.Header {
		return &peerpb.Header{Format: peers.Format, Cluster: number(who.Cluster), From: number(who.Member),
			To: number(target.Member), Incarnation: number(who.Incarnation), ToIncarnation: number(to),
			Address: "127.0.0.9:" + p.port}
	}
	command := codec.AppendToEntry(codec.BeginEntry(nil, 0),
		&coordination.AddUser{Name: "evil", PasswordHash: "none", Administrator: true})
	for ctx.Err() == nil {
		conn := p.dial(p.peer(at), name)
		peer := peerpb.NewPeerClient(conn)
		if answer, err := peer.Hello(ctx, &peerpb.HelloRequest{}); err == nil {
			p.t.Errorf("%s is told %v", name, answer)
		}
		for _, h := range []*peerpb.Header{header("1234567890abcdef"), header(target.Incarnation)} {
			stream, err := peer.Messages(withHeader(ctx, h))
			if err != nil {
				continue
			}
			message, err := proto.Marshal(&raftpb.Message{Type: raftpb.MsgApp.Enum(), From: &h.From,
				To: &h.To, Term: proto.Uint64(1000), Commit: proto.Uint64(5), Index: proto.Uint64(4),
				LogTerm: proto.Uint64(1), Entries: []*raftpb.Entry{{Term: proto.Uint64(1000),
					Index: proto.Uint64(5), Data: command}}})
			if err != nil {
				p.t.Error(err)
			}
			_ = stream.Send(&peerpb.Frame{Messages: [][]byte{message}})
			if _, err := stream.CloseAndRecv(); err == nil {
				p.t.Errorf("%s is listened to", name)
			}
			if snapshot, err := peer.Snapshot(withHeader(ctx, h)); err == nil {
				_ = snapshot.Send(&peerpb.Chunk{Message: message})
				if _, err := snapshot.CloseAndRecv(); err == nil {
					p.t.Errorf("a snapshot of %s is taken", name)
				}
			}
		}
		for _, ctx := range []context.Context{ctx, withHeader(ctx, header(target.Incarnation))} {
			err := peers.Ask(ctx, conn, &relaypb.ExecuteRequest{Command: codec.AppendCommand(nil,
				&coordination.AddUser{Name: "evil", PasswordHash: "none"})}, &relaypb.ExecuteResponse{})
			if err == nil {
				p.t.Errorf("a command of %s is executed", name)
			}
			relay, err := peers.Open[relaypb.ToLeader, relaypb.FromLeader](ctx, conn, "relay")
			if err != nil {
				continue
			}
			_ = relay.Send(&relaypb.ToLeader{Hello: &relaypb.Hello{}, Renew: 1})
			if _, err := relay.Recv(); err == nil {
				p.t.Errorf("a relay of %s is served", name)
			}
		}
		_ = conn.Close()
	}
}

// silentPeers has connections to a peer port that say nothing, from an address of its own.
func silentPeers(ctx context.Context, address string) {
	var all []net.Conn
	defer func() {
		for _, conn := range all {
			_ = conn.Close()
		}
	}()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 8)}}
	for ctx.Err() == nil {
		conn, err := dialer.DialContext(ctx, "tcp", address)
		if err != nil {
			continue
		}
		if all = append(all, conn); len(all) > 500 {
			_ = all[0].Close()
			all = all[1:]
		}
		time.Sleep(time.Millisecond)
	}
}
