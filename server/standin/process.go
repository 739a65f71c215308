package standin

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/coordd/coordd/server"
	"github.com/coordd/coordd/server/listen"
	"github.com/coordd/coordd/server/standin/faults"
)

// Process is a stand-in that is a process of its own, `coordd-standin`: one server in memory, by a
// configuration of somebody else's, which takes orders where it serves monitoring programs.
type Process struct {
	core  *core
	abort context.CancelFunc // ends a start that is under way
	ended chan struct{}      // see Done

	mutex sync.Mutex
	err   error
}

// RunProcess starts the stand-in of a process. The configuration says where it listens and how it treats
// clients; of the options FakeTime, Tap and Load count. Errors are those of server.Start and of Load.
func RunProcess(ctx context.Context, config server.Config, options ...Option) (*Process, error) {
	settings, err := collect(append([]Option{Database(config.Database)}, options...))
	if err != nil {
		return nil, err
	}
	if config.Logger == nil {
		config.Logger = settings.logger
	}
	p := &Process{core: newCore(settings), ended: make(chan struct{})}
	p.core.process, p.core.lost = &config, p.fail
	p.core.life, p.abort = context.WithCancel(context.Background())
	if err := p.core.begin(ctx); err != nil {
		p.abort()
		return nil, err
	}
	return p, nil
}

// configureProcess makes the configuration of the one server of a process.
func (c *core) configureProcess(m *member) {
	m.config = *c.process
	m.config.Listen, m.config.DataDir = m.clients.address(), ""
	if m.tls != nil {
		m.config.ListenTLS = m.tls.address()
	}
	c.ordered = c.controls()
	m.config.HTTP.Faults = c.ordered
	c.monitoring = &monitoring{logger: m.config.Logger}
	m.hooks.Monitoring = c.monitoring.serve
	m.emptyMemory()
}

// Faults returns the set of faults.
func (p *Process) Faults() *faults.Set { return p.core.faults }

// Orders takes the orders of this stand-in. Others may be added.
func (p *Process) Orders() *faults.Controls { return p.core.ordered }

func (p *Process) server() *server.Server {
	m := p.core.members[0]
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return m.latest
}

// ConnectionString is the connection string for clients.
func (p *Process) ConnectionString() string { return p.server().ConnectionString() }

// TLSConnectionString is the same for the TLS listener, empty without one.
func (p *Process) TLSConnectionString() string { return p.server().TLSConnectionString() }

// ConsoleLink is server.Server.ConsoleLink.
func (p *Process) ConsoleLink() string { return p.server().ConsoleLink() }

// HTTPAddr is where orders are taken, nil if nowhere.
func (p *Process) HTTPAddr() net.Addr { return p.server().HTTPAddr() }

// Drained is server.Server.Drained of the server that runs, or is being stopped.
func (p *Process) Drained() <-chan struct{} { return p.server().Drained() }

// Done is closed when the server has ended by itself.
func (p *Process) Done() <-chan struct{} { return p.ended }

// Err is why Done is closed, nil before.
func (p *Process) Err() error {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.err
}

func (p *Process) fail(err error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.err == nil {
		p.err = err
		close(p.ended)
	}
}

// Stop ends the stand-in as server.Server.Stop does a server. A restart that is under way is given up.
func (p *Process) Stop(ctx context.Context) error {
	p.abort()
	err := p.core.stop(ctx)
	for _, fault := range p.core.takeUnmet() {
		p.core.process.Logger.Warn("a fault never happened", "fault", fault)
	}
	return err
}

// watch has a server of a process that ends by itself be the end of the process, unless it is asked to: then
// over is closed.
func (c *core) watch(s *server.Server, over <-chan struct{}) {
	select {
	case <-s.Done():
		c.lost(s.Err())
	case <-over:
	}
}

// monitoring serves the monitoring port. It outlives the servers, so that an order to restart is answered.
type monitoring struct {
	logger  *slog.Logger
	handler atomic.Pointer[http.Handler]
	addr    net.Addr
	server  *listen.HTTPServer // nil before there is a server, or without a listener
}

// serve is the hook of that name.
func (m *monitoring) serve(address string, handler http.Handler) (net.Addr, error) {
	m.handler.Store(&handler)
	if m.server == nil {
		listener, err := net.Listen("tcp", address)
		if err != nil {
			return nil, err
		}
		m.addr, m.server = listener.Addr(), listen.ServeHTTP(listener, m, m.logger)
	}
	return m.addr, nil
}

// ServeHTTP implements http.Handler. A page of the console learns from the header that it may give orders.
func (m *monitoring) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set(listen.OrderHeader, "1")
	(*m.handler.Load()).ServeHTTP(w, r)
}

func (m *monitoring) stop() {
	if m != nil && m.server != nil {
		m.server.Stop()
	}
}
