//go:build linux

package crash

import (
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
)

// cutMode is the treatment of traffic by a cut network.
type cutMode string

const (
	// hold keeps everything until the cut is healed, as TCP does when packets are lost for a while.
	hold cutMode = "hold"
	// swallow takes bytes and forgets them. The connection stays open and never carries anything again,
	// healed or not: a firewall that forgot it.
	swallow cutMode = "swallow"
	// reset breaks connections and refuses new ones.
	reset cutMode = "reset"
)

// network is the way between the servers of a cluster: a proxy in front of each one's peer port, to which the others
// connect. The caller of a connection is found in the system's tables, so that each direction between two servers can
// be cut by itself.
type network struct {
	processOf func(server int) int // process id, 0 if it does not run
	servers   int
	proxies   []net.Listener

	mutex   sync.Mutex
	cuts    map[way]cutMode
	changed chan struct{} // closed when cuts change
	pairs   map[*pair]bool
	closed  bool
	running sync.WaitGroup
}

// way is a direction between two servers.
type way struct{ from, to int }

// pair is one relayed connection: two sockets.
type pair struct {
	dialer, target int
	near, far      net.Conn
	swallowed      atomic.Bool // it carries nothing any more, one way at least
	given          atomic.Bool // the dialer has given it up
}

// newNetwork puts a proxy in front of each of the targets.
func newNetwork(t *testing.T, targets []string, processOf func(int) int) *network {
	t.Helper()
	n := &network{processOf: processOf, servers: len(targets), cuts: make(map[way]cutMode),
		changed: make(chan struct{}), pairs: make(map[*pair]bool)}
	for i, target := range targets {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		n.proxies = append(n.proxies, listener)
		n.running.Go(func() { n.accept(listener, i, target) })
	}
	t.Cleanup(n.close)
	return n
}

func (n *network) address(server int) string { return n.proxies[server].Addr().String() }

func (n *network) close() {
	n.mutex.Lock()
	n.closed = true
	for p := range n.pairs {
		p.close()
	}
	n.mutex.Unlock()
	n.heal()
	for _, l := range n.proxies {
		_ = l.Close()
	}
	n.running.Wait()
}

// cut cuts ways. With reset both directions between the two servers break.
func (n *network) cut(mode cutMode, ways ...way) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	for _, w := range ways {
		n.cuts[w] = mode
		for p := range n.pairs {
			if mode == reset && (way{p.dialer, p.target} == w || way{p.target, p.dialer} == w) {
				p.reset()
			}
		}
	}
	n.announce()
}

// heal undoes all cuts.
func (n *network) heal() {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	clear(n.cuts)
	n.announce()
}

func (n *network) announce() {
	close(n.changed)
	n.changed = make(chan struct{})
}

// replaced reports whether the servers have given up all connections that a cut has killed.
func (n *network) replaced() bool {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	for p := range n.pairs {
		if p.swallowed.Load() && !p.given.Load() {
			return false
		}
	}
	return true
}

// between is both directions between two servers.
func between(a, b int) []way { return []way{{a, b}, {b, a}} }

func (n *network) accept(listener net.Listener, target int, address string) {
	for {
		near, err := listener.Accept()
		if err != nil {
			return
		}
		n.running.Go(func() { n.serve(near.(*net.TCPConn), target, address) })
	}
}

func (n *network) serve(near *net.TCPConn, target int, address string) {
	dialer, found := n.whoDialed(near)
	far, err := net.Dial("tcp", address)
	if err != nil || !found {
		if err == nil {
			_ = far.Close()
		}
		_ = near.Close()
		return
	}
	p := &pair{dialer: dialer, target: target, near: near, far: far}
	n.mutex.Lock()
	n.pairs[p] = true
	refused := n.cuts[way{dialer, target}] == reset || n.cuts[way{target, dialer}] == reset
	if n.closed || refused {
		p.reset()
	}
	n.mutex.Unlock()
	var copying sync.WaitGroup
	copying.Go(func() { n.copy(p, p.near, p.far, way{dialer, target}) })
	n.copy(p, p.far, p.near, way{target, dialer})
	copying.Wait()
	n.mutex.Lock()
	delete(n.pairs, p)
	n.mutex.Unlock()
	p.close()
}

// copy carries bytes one way until a side ends. A way that has swallowed bytes is dead, and the other side does not see
// an end either.
func (n *network) copy(p *pair, from, to net.Conn, w way) {
	buffer := make([]byte, 64<<10)
	dead := false
	for {
		read, err := from.Read(buffer)
		if !n.passes(w) && !dead {
			dead = true
			p.swallowed.Store(true)
		}
		if err != nil && from == p.near {
			p.given.Store(true)
		}
		if dead && err == nil {
			continue
		}
		if !dead {
			_, failed := to.Write(buffer[:read])
			if err == nil {
				err = failed
			}
		}
		if err == nil {
			continue
		}
		if !dead {
			p.close() // otherwise the way back does, when the other side gives up by itself
		}
		return
	}
}

// passes waits while the way is held, and reports whether bytes may go on.
func (n *network) passes(w way) bool {
	for {
		n.mutex.Lock()
		mode, changed, closed := n.cuts[w], n.changed, n.closed
		n.mutex.Unlock()
		if mode != hold || closed {
			return mode != swallow
		}
		<-changed
	}
}

func (p *pair) close() {
	_ = p.near.Close()
	_ = p.far.Close()
}

func (p *pair) reset() {
	for _, c := range []net.Conn{p.near, p.far} {
		_ = c.(*net.TCPConn).SetLinger(0)
	}
	p.close()
}

// whoDialed finds the server that made a connection.
func (n *network) whoDialed(conn *net.TCPConn) (server int, found bool) {
	socket := socketOf(conn.RemoteAddr().(*net.TCPAddr).Port, conn.LocalAddr().(*net.TCPAddr).Port)
	if socket == "" {
		return 0, false
	}
	for i := range n.servers {
		if id := n.processOf(i); id != 0 && hasFile(id, socket) {
			return i, true
		}
	}
	return 0, false
}

// socketOf names the socket of this machine from one port to another as it appears among a process's files, or returns
// "". The kernel is asked for the one: /proc/net/tcp lists those of all tests, and of closed connections for a minute,
// and servers that are refused dial many times a second.
func socketOf(local, remote int) string {
	inode, err := inodeOf(local, remote)
	if err != nil || inode == 0 {
		return ""
	}
	return fmt.Sprintf("socket:[%d]", inode)
}

// The layout of a question to sock_diag(7) for one socket, and of the answer.
const (
	netlinkInetDiag  = 4
	sockDiagByFamily = 20
	netlinkHeader    = syscall.NLMSG_HDRLEN
	questionBytes    = netlinkHeader + 56
	inodeAt          = netlinkHeader + 68
)

// inodeOf asks sock_diag(7).
func inodeOf(local, remote int) (inode uint32, err error) {
	diag, err := syscall.Socket(syscall.AF_NETLINK, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, netlinkInetDiag)
	if err != nil {
		return 0, err
	}
	defer syscall.Close(diag)
	question := binary.NativeEndian.AppendUint32(nil, questionBytes)
	question = binary.NativeEndian.AppendUint16(question, sockDiagByFamily)
	question = binary.NativeEndian.AppendUint16(question, syscall.NLM_F_REQUEST)
	question = append(question, make([]byte, 8)...) // number, process
	question = append(question, syscall.AF_INET, syscall.IPPROTO_TCP, 0, 0)
	question = binary.NativeEndian.AppendUint32(question, ^uint32(0)) // in any state
	question = binary.BigEndian.AppendUint16(question, uint16(local))
	question = binary.BigEndian.AppendUint16(question, uint16(remote))
	for range 2 { // addresses of 16 bytes
		question = append(question, 127, 0, 0, 1)
		question = append(question, make([]byte, 12)...)
	}
	question = append(question, make([]byte, 4)...)                   // interface
	question = binary.NativeEndian.AppendUint64(question, ^uint64(0)) // no cookie
	if err := syscall.Sendto(diag, question, 0,
		&syscall.SockaddrNetlink{Family: syscall.AF_NETLINK}); err != nil {
		return 0, err
	}
	answer := make([]byte, 4096)
	n, _, err := syscall.Recvfrom(diag, answer, 0)
	if err != nil {
		return 0, err
	}
	if kind := binary.NativeEndian.Uint16(answer[4:]); n < inodeAt+4 || kind != sockDiagByFamily {
		return 0, fmt.Errorf("sock_diag: a message of type %d with %d bytes", kind, n)
	}
	return binary.NativeEndian.Uint32(answer[inodeAt:]), nil
}

func hasFile(process int, name string) bool {
	dir := fmt.Sprintf("/proc/%d/fd", process)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false
	}
	for _, e := range entries {
		if target, err := os.Readlink(dir + "/" + e.Name()); err == nil && target == name {
			return true
		}
	}
	return false
}
