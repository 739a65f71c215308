package standin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coordd/coordd/internal/hooks"
	"github.com/coordd/coordd/raftstore"
	"github.com/coordd/coordd/raftstore/memory"
	"github.com/coordd/coordd/server"
	"github.com/coordd/coordd/server/group"
	"github.com/coordd/coordd/server/listen"
	"github.com/coordd/coordd/server/standin/faults"
)

// TB is the part of testing.TB that a stand-in needs.
type TB interface {
	Helper()
	Cleanup(func())
	Fatalf(format string, args ...any)
	Logf(format string, args ...any)
	Name() string
}

const (
	// startPatience limits a start: a cluster has to elect a leader, and the machine may be busy.
	startPatience = time.Minute
	// stopPatience limits a stop's wait for clients, which may well go on to the end of the test.
	stopPatience = time.Second
)

// Server is a running stand-in. Its methods may be called by many goroutines, unless they say something else.
type Server struct {
	*core
	tb TB // nil: there is no test, and failures panic
}

// core is the common part of all views of a stand-in.
type core struct {
	settings settings
	clock    *clock // nil: the real one
	faults   *faults.Set
	temp     string // directory to be removed in the end, or ""
	files    listen.TLSFiles
	unbind   func() bool     // of the context of Run
	life     context.Context // within which servers may be started again

	process    *server.Config // of a Process, else nil, as the next three are
	ordered    *faults.Controls
	lost       func(error) // called with the reason when a server has ended by itself
	monitoring *monitoring

	mutex   sync.Mutex // held while servers are started and stopped
	stopped bool
	unmet   []string // faults that had met nothing when it stopped
	members []*member

	advancing sync.Mutex  // held by Advance
	turning   atomic.Bool // Advance is under way: clients are pinged by its clock alone
	silent    map[clientPing]bool
}

// member is one of the servers.
type member struct {
	name          string
	clients, peer *port // peer is nil without others
	tls           *port // nil without TLS
	config        server.Config
	hooks         hooks.Hooks

	mutex   sync.Mutex
	running *server.Server // nil while it is stopped
	latest  *server.Server // the same, also when it is stopped
	over    chan struct{}  // closed when running is asked to end; nil where nobody watches it
}

// Start starts a stand-in that ends with the test.
func Start(t TB, options ...Option) *Server {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startPatience)
	defer cancel()
	c, err := start(ctx, options)
	if err != nil {
		t.Fatalf("standin: %v", err)
		return nil
	}
	s := &Server{core: c, tb: t}
	t.Cleanup(func() {
		if err := c.stopSoon(); err != nil {
			t.Logf("standin: stop: %v", err)
		}
		s.missed(c.takeUnmet())
	})
	return s
}

// Run starts a stand-in without a test. It ends with ctx, or by Stop. What would fail a test panics; see In.
func Run(ctx context.Context, options ...Option) (*Server, error) {
	c, err := start(ctx, options)
	if err != nil {
		return nil, fmt.Errorf("standin: %w", err)
	}
	c.unbind = context.AfterFunc(ctx, func() { _ = c.stopSoon() })
	return &Server{core: c}, nil
}

// In is the same stand-in for a test: its failures fail that.
func (s *Server) In(t TB) *Server { return &Server{core: s.core, tb: t} }

// fail ends the test.
func (s *Server) fail(format string, args ...any) {
	if s.tb == nil {
		panic("standin: " + fmt.Sprintf(format, args...))
	}
	s.tb.Helper()
	s.tb.Fatalf("standin: "+format, args...)
}

// helper is TB.Helper.
func (s *Server) helper() func() {
	if s.tb == nil {
		return func() {}
	}
	return s.tb.Helper
}

func start(ctx context.Context, options []Option) (*core, error) {
	settings, err := collect(options)
	if err != nil {
		return nil, err
	}
	c := newCore(settings)
	return c, c.begin(ctx)
}

func newCore(settings settings) *core {
	c := &core{settings: settings, silent: make(map[clientPing]bool), life: context.Background()}
	if settings.fakeTime {
		c.clock = new(clock)
	}
	c.faults = faults.New(settings.database, c.timer())
	c.faults.SetTap(settings.tap)
	return c
}

// begin starts the servers. Where it fails nothing is left of them.
func (c *core) begin(ctx context.Context) error {
	err := c.beginLocked(ctx)
	if err == nil && c.settings.fixture != "" {
		err = c.load(ctx, c.settings.fixture)
	}
	if err != nil {
		return errors.Join(err, c.stopSoon())
	}
	return nil
}

func (c *core) beginLocked(ctx context.Context) error {
	c.mutex.Lock() // a process may get an order to restart before it has started
	defer c.mutex.Unlock()
	if err := c.prepare(); err != nil {
		return err
	}
	if err := c.startAll(ctx); err != nil {
		return err
	}
	return c.addUsers(ctx)
}

// prepare finds ports, and makes the configuration of each server.
func (c *core) prepare() (err error) {
	if c.settings.tls || c.settings.servers > 1 && c.settings.dir == "" {
		if c.temp, err = os.MkdirTemp("", "coordd-standin-"); err != nil {
			return err
		}
	}
	if c.settings.tls {
		if c.files, err = makeCertificate(c.temp); err != nil {
			return err
		}
	}
	initial := make(map[string]string)
	for i := range c.settings.servers {
		m := &member{name: fmt.Sprint("standin-", i+1)}
		c.members = append(c.members, m)
		if m.clients, err = openPort(c.listens()); err != nil {
			return err
		}
		if address := c.listensTLS(); address != "" {
			if m.tls, err = openPort(address); err != nil {
				return err
			}
		}
		if c.settings.servers > 1 {
			if m.peer, err = openPort(anyPort); err != nil {
				return err
			}
			initial[m.name] = m.peer.address()
			c.faults.Peer(i+1, m.peer.address())
		}
	}
	for i, m := range c.members {
		c.configure(m, initial)
		c.makeFaulty(m, i+1)
	}
	return nil
}

// anyPort is the address of a stand-in that nobody has another one for.
const anyPort = "127.0.0.1:0"

// listens is where clients are to be served.
func (c *core) listens() string {
	if c.process != nil {
		return c.process.Listen
	}
	return anyPort
}

// listensTLS is the same for TLS, empty without.
func (c *core) listensTLS() string {
	switch {
	case c.process != nil:
		return c.process.ListenTLS
	case c.settings.tls:
		return anyPort
	}
	return ""
}

// configure makes the configuration of a server.
func (c *core) configure(m *member, initial map[string]string) {
	m.config = server.Config{Listen: m.clients.address(), Database: c.settings.database,
		Limits: c.settings.limits, Logger: c.settings.logger, LoopbackAdmin: true}
	m.hooks = hooks.Hooks{Listen: m.listen}
	if c.clock != nil {
		m.hooks.Rings, m.hooks.Remind = c.clock, c.reminds
	}
	if c.process != nil {
		c.configureProcess(m)
		return
	}
	if m.tls != nil {
		m.config.ListenTLS, m.config.TLS = m.tls.address(), c.files
	}
	if len(c.settings.users) > 0 {
		m.config.Auth = server.AuthRequired
		m.config.InitialAdmin, m.config.InitialAdminPassword = administrator(c.settings.users)
	}
	switch dir := cmp.Or(c.settings.dir, c.temp); {
	case m.peer != nil:
		m.config.DataDir = filepath.Join(dir, m.name)
		m.config.Cluster = raftstore.Cluster{Name: m.name, ListenPeer: m.peer.address(),
			Initial: maps.Clone(initial)}
		m.config.Logger = m.config.Logger.With("server", m.name)
	case c.settings.dir != "":
		m.config.DataDir = c.settings.dir
	default:
		m.emptyMemory()
	}
}

// emptyMemory keeps the server's state in memory, where the server that is started next finds it, and begins with
// none.
func (m *member) emptyMemory() {
	kept := new(memory.Kept)
	m.config.InMemory = true
	m.hooks.Log = func(log *raftstore.Config) { log.Memory = kept }
}

// listen is the hook of that name.
func (m *member) listen(address string) (net.Listener, error) {
	for _, p := range []*port{m.clients, m.tls, m.peer} {
		if p != nil && p.address() == address {
			return p.listen()
		}
	}
	return net.Listen("tcp", address)
}

// each does something to all servers at once.
func (c *core) each(do func(*member) error) error {
	if len(c.members) == 1 {
		return do(c.members[0])
	}
	errs := make([]error, len(c.members))
	var all sync.WaitGroup
	for i, m := range c.members {
		all.Go(func() { errs[i] = do(m) })
	}
	all.Wait()
	return errors.Join(errs...)
}

func (c *core) startAll(ctx context.Context) error {
	return c.each(func(m *member) error {
		s, err := server.StartWith(ctx, m.config, m.hooks)
		if err != nil {
			return err
		}
		m.mutex.Lock()
		defer m.mutex.Unlock()
		m.running, m.latest = s, s
		if c.lost != nil {
			m.over = make(chan struct{})
			go c.watch(s, m.over)
		}
		return nil
	})
}

func (c *core) stopAll(ctx context.Context) error {
	return c.each(func(m *member) error {
		m.mutex.Lock()
		s := m.running
		m.running = nil
		if s != nil && m.over != nil {
			close(m.over)
		}
		m.mutex.Unlock()
		if s == nil {
			return nil
		}
		return s.Stop(ctx)
	})
}

// stopSoon is stop with the patience for clients that a test has.
func (c *core) stopSoon() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopPatience)
	defer cancel()
	return c.stop(ctx)
}

// stop ends everything. ctx bounds the patience for clients.
func (c *core) stop(ctx context.Context) error {
	if c.unbind != nil {
		c.unbind()
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.stopped {
		return nil
	}
	c.stopped = true
	c.unmet = c.faults.Reset() // a silenced stream could not be notified of the end
	err := c.stopAll(ctx)
	c.monitoring.stop()
	for _, m := range c.members {
		for _, p := range []*port{m.clients, m.tls, m.peer} {
			if p != nil {
				err = errors.Join(err, p.tcp.Close())
			}
		}
	}
	if c.temp != "" {
		err = errors.Join(err, os.RemoveAll(c.temp))
	}
	return err
}

// Stop ends the stand-in; Start's does so by itself at the end of the test. Clients that are still connected are
// notified of the stop, and get a second. Later calls do nothing.
func (s *Server) Stop() {
	s.helper()()
	if err := s.stopSoon(); err != nil {
		s.fail("stop: %v", err)
	}
	s.missed(s.takeUnmet())
}

// takeUnmet returns the faults that had met nothing when the stand-in stopped, once.
func (c *core) takeUnmet() []string {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	unmet := c.unmet
	c.unmet = nil
	return unmet
}

// Restart stops all servers and starts them again on their ports: streams end as when a server is stopped,
// and clients that connect meanwhile wait. Everything that was acknowledged is there afterwards, also in
// memory, and FakeTime goes on.
func (s *Server) Restart() {
	s.helper()()
	if err := s.restart(false); err != nil {
		s.fail("restart: %v", err)
	}
}

// RestartEmpty is Restart as after the loss of all data.
func (s *Server) RestartEmpty() {
	s.helper()()
	if err := s.restart(true); err != nil {
		s.fail("restart: %v", err)
	}
}

var errStopped = errors.New("the stand-in has been stopped")

func (c *core) restart(empty bool) error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.stopped {
		return errStopped
	}
	polite, done := context.WithTimeout(context.Background(), stopPatience)
	defer done()
	if err := c.stopAll(polite); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.life, startPatience)
	defer cancel()
	if !empty {
		return c.startAll(ctx)
	}
	for _, m := range c.members {
		if m.config.InMemory {
			m.emptyMemory()
		} else if err := os.RemoveAll(m.config.DataDir); err != nil {
			return err
		}
	}
	if err := c.startAll(ctx); err != nil {
		return err
	}
	return c.addUsers(ctx)
}

// ConnectionString is the argument for ydb.Open, such as grpc://127.0.0.1:40123/local.
func (s *Server) ConnectionString() string {
	m, scheme := s.members[0], "grpc://"
	address := m.clients.address()
	if m.tls != nil {
		scheme, address = "grpcs://", m.tls.address()
	}
	return scheme + address + s.settings.database
}

// server is the running server, nil if it is stopped.
func (m *member) server() *server.Server {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return m.running
}

// groups are those of the servers that run.
func (c *core) groups() []*group.Group {
	var groups []*group.Group
	for _, m := range c.members {
		if s := m.server(); s != nil {
			groups = append(groups, s.Group(hooks.Key{}))
		}
	}
	return groups
}

// leader is the group that leads. It waits for one.
func (c *core) leader(ctx context.Context) (*group.Group, error) {
	return c.first(ctx, (*group.Group).Leads)
}

// first is a group that is as it should be. It waits for one.
func (c *core) first(ctx context.Context, is func(*group.Group) bool) (*group.Group, error) {
	for {
		for _, g := range c.groups() {
			if is(g) {
				return g, nil
			}
		}
		select {
		case <-ctx.Done():
			return nil, errNoLeader
		case <-time.After(pollPause):
		}
	}
}

var errNoLeader = errors.New("no server leads")

// pollPause separates two looks at something that takes its time.
const pollPause = 2 * time.Millisecond
