package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Auth_V1"
	"github.com/ydb-platform/ydb-go-genproto/Ydb_Coordination_V1"
	"github.com/ydb-platform/ydb-go-genproto/Ydb_Discovery_V1"
	"github.com/ydb-platform/ydb-go-genproto/Ydb_Monitoring_V1"
	"github.com/ydb-platform/ydb-go-genproto/Ydb_Operation_V1"
	"github.com/ydb-platform/ydb-go-genproto/Ydb_RateLimiter_V1"
	"github.com/ydb-platform/ydb-go-genproto/Ydb_Scheme_V1"
	"google.golang.org/grpc"
	_ "google.golang.org/grpc/encoding/gzip" // C++ clients may compress
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/internal/budget"
	"github.com/coordd/coordd/internal/clock"
	"github.com/coordd/coordd/internal/hooks"
	"github.com/coordd/coordd/raftstore"
	"github.com/coordd/coordd/raftstore/files"
	"github.com/coordd/coordd/raftstore/peers"
	"github.com/coordd/coordd/raftstore/settings"
	"github.com/coordd/coordd/server/admin"
	"github.com/coordd/coordd/server/adminpb"
	"github.com/coordd/coordd/server/auth"
	"github.com/coordd/coordd/server/calls"
	"github.com/coordd/coordd/server/console"
	"github.com/coordd/coordd/server/discovery"
	"github.com/coordd/coordd/server/group"
	"github.com/coordd/coordd/server/history"
	"github.com/coordd/coordd/server/inspect"
	"github.com/coordd/coordd/server/listen"
	"github.com/coordd/coordd/server/meters"
	"github.com/coordd/coordd/server/readiness"
	"github.com/coordd/coordd/server/services"
	"github.com/coordd/coordd/server/sessions"
	"github.com/coordd/coordd/server/statelimit"
	"github.com/coordd/coordd/server/users"
)

// Server is one running coordd server.
type Server struct {
	config Config

	listener    net.Listener        // nil without Listen
	tls         *listen.TLSListener // nil without ListenTLS
	auth        *auth.Authenticator
	connections *listen.Connections
	grpc        *grpc.Server
	health      *health.Server
	group       *group.Group
	store       *raftstore.Store // the group's
	calls       *calls.Runner
	users       *users.Service
	sessions    *sessions.Service
	discovery   *discovery.Service

	stopOnce  sync.Once
	done      chan struct{}
	opened    chan struct{} // closed when Start has succeeded
	drained   chan struct{} // see Drained
	leaving   atomic.Bool   // Stop has begun: no more clients are to be sent here
	enforcer  enforcer
	readiness *readiness.Watch
	http      httpListeners
	panics    meters.Panics
	meters    meters.Meters
	held      *heldAnswers
	admin     *admin.Console
	inspect   atomic.Pointer[inspect.Service]

	stateLimit *statelimit.Limit

	mutex   sync.Mutex
	err     error
	serving sync.WaitGroup
}

// Start opens the data directory and the listener and returns when the server answers requests: there is a leader, and
// this server is not far behind. Until then clients can connect already; the health check reports that the server is
// not ready, and their calls wait. ctx bounds the start only. Errors: those of Config.Validate, *ConfigError, those of
// raftstore.Open (ErrLocked, *CorruptionError and others), and of listening.
func Start(ctx context.Context, config Config) (*Server, error) {
	return StartWith(ctx, config, config.hooks)
}

// StartWith is Start with replaced parts of the environment. Other modules cannot name the hooks: it is for
// server/standin, conformance/sim and the tests.
func StartWith(ctx context.Context, config Config, h hooks.Hooks) (*Server, error) {
	config.hooks = h
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	if config.Limits == (coordination.Limits{}) {
		config.Limits = coordination.DefaultLimits()
	}
	config.Hardening = config.Hardening.withDefaults(config.Resources)
	config.Resources.tell(config.Hardening, config.Logger)
	if config.hooks.Shuffle == nil {
		config.hooks.Shuffle = rand.Shuffle
	}
	if config.hooks.Listen == nil {
		config.hooks.Listen = func(address string) (net.Listener, error) { return net.Listen("tcp", address) }
	}
	if config.hooks.Socket == nil {
		config.hooks.Socket = listen.Socket
	}
	if err := config.Validate(); err != nil {
		return nil, err
	}
	authenticator, err := auth.New(config.Auth == AuthRequired, config.Database, config.TokenFile)
	if err != nil {
		return nil, &ConfigError{err}
	}
	if config.replaced.passwords != nil {
		authenticator.Passwords = config.replaced.passwords
	}
	authenticator.LoopbackAdmin = config.LoopbackAdmin
	authenticator.LoginLifetime = cmp.Or(config.LoginLifetime, auth.DefaultLoginLifetime)
	tls, err := listenTLS(config)
	if err != nil {
		return nil, err
	}
	s := &Server{config: config, tls: tls, auth: authenticator, done: make(chan struct{}),
		opened: make(chan struct{}), drained: make(chan struct{}), held: newHeldAnswers(clock.New(nil)),
		calls: &calls.Runner{Patience: config.hooks.Patience, Enforced: authenticator.Required,
			Packing: budget.New("results made at once", calls.FewAtOnce())}}
	s.stateLimit = &statelimit.Limit{Runner: s.calls, Logger: config.Logger, Configured: config.Limits,
		Memory: config.replaced.memory}
	if s.stateLimit.Memory == (statelimit.Memory{}) {
		s.stateLimit.Memory = statelimit.FindMemory(os.DirFS("/"), debug.SetMemoryLimit(-1))
	}
	s.readiness = readiness.New(readiness.Sources{Runner: s.calls, StateLimit: s.stateLimit, Leaving: &s.leaving,
		Err: s.Err, Logger: config.Logger, Database: config.Database, Replaced: config.replaced.readiness})
	if err := s.listenHTTP(); err != nil {
		return nil, errors.Join(err, closeTLS(tls))
	}
	if err := s.openGroup(ctx); err != nil {
		s.http.stop()
		return nil, errors.Join(err, closeTLS(tls))
	}
	if config.Listen != "" {
		if s.listener, err = config.hooks.Listen(config.Listen); err != nil {
			s.http.stop()
			return nil, errors.Join(err, closeTLS(tls), s.group.Stop(ctx))
		}
	}
	s.users = &users.Service{Runner: s.calls, Auth: authenticator, Meters: &s.meters, Logger: config.Logger}
	s.panics.Logger = config.Logger
	s.sessions = &sessions.Service{Runner: s.calls, Auth: authenticator, Meters: &s.meters, Panics: &s.panics,
		Logger: config.Logger, Policy: config.pingPolicy()}
	s.sessions.Start()
	s.connections = listen.NewConnections(s.config.Hardening.ofConnections(authenticator.Required),
		config.Logger)
	if err := s.group.Start(); err != nil {
		s.sessions.Stop()
		s.http.stop()
		if s.listener != nil {
			err = errors.Join(err, s.listener.Close())
		}
		return nil, errors.Join(err, closeTLS(tls), s.group.Stop(ctx))
	}
	s.inspect.Load().History.Start()
	s.readiness.Connections = s.connections
	s.discovery = s.newDiscovery()
	s.readiness.Discovery = s.discovery
	s.startGRPC()
	s.startEnforcer()
	s.readiness.Start()
	s.http.opened.Store(true)
	if config.Listening != nil {
		config.Listening(s)
	}
	if err := s.becomeReady(ctx); err != nil {
		over, cancel := context.WithCancel(ctx)
		cancel()
		return nil, errors.Join(err, s.Stop(over))
	}
	close(s.opened)
	return s, nil
}

// listenTLS opens the TLS listener; it returns nil without an address.
func listenTLS(config Config) (*listen.TLSListener, error) {
	if config.ListenTLS == "" {
		return nil, nil
	}
	listener, err := listen.TLS(config.ListenTLS, config.hooks.Listen, config.TLS, config.Logger)
	if file := (*listen.FileError)(nil); errors.As(err, &file) {
		return nil, &ConfigError{err}
	}
	return listener, err
}

// closeTLS closes the TLS listener, if there is one.
func closeTLS(l *listen.TLSListener) error {
	if l == nil {
		return nil
	}
	return l.Close()
}

func (s *Server) newDiscovery() *discovery.Service {
	c := s.config
	d := &discovery.Service{Runner: s.calls, Names: c.names(), Database: c.Database, Store: s.store, Logger: c.Logger,
		InCluster: c.Cluster.Name != "", Reached: s.readiness.Reached(), Stopped: s.readiness.Stopped(),
		Leaving: &s.leaving, Shuffle: c.hooks.Shuffle, ListPatience: c.replaced.listPatience}
	var plain, tls *net.TCPAddr
	if s.listener != nil {
		plain = s.listener.Addr().(*net.TCPAddr)
	}
	if s.tls != nil {
		tls = s.tls.Addr().(*net.TCPAddr)
	}
	d.Advertised = d.Addresses(plain, tls)
	return d
}

// openGroup opens the group's log.
func (s *Server) openGroup(ctx context.Context) error {
	c := s.config
	ofCluster := &admin.Cluster{Runner: s.calls, Auth: s.auth, Readiness: s.readiness, StateLimit: s.stateLimit,
		Logger: c.Logger, Name: c.Cluster.Name, ListensForPeers: c.Cluster.ListenPeer != "", InMemory: c.InMemory, Err: s.Err,
		Stall: c.replaced.backupStall}
	s.admin = &admin.Console{Cluster: ofCluster, Link: s.ConsoleLink, Version: c.Version, Started: time.Now()}
	cluster := c.Cluster
	cluster.Settings, cluster.Listen = s.sharedSettings, c.hooks.Listen
	cluster.Services = new(peers.Services)
	admin.Leader{Cluster: ofCluster}.Register(cluster.Services)
	peers.Answer(cluster.Services, s.admin.Own)
	inspect.Peer{Service: s.inspect.Load}.Register(cluster.Services)
	log := raftstore.Config{Dir: c.DataDir, InMemory: c.InMemory, Logger: c.Logger, Cluster: cluster,
		ReserveBytes: c.DiskReserve}
	if c.hooks.Log != nil {
		c.hooks.Log(&log)
	}
	opened, err := group.Open(ctx, group.Config{
		Log: log, Database: c.Database, Limits: c.Limits, Clock: clock.New(c.hooks.Rings), Remind: c.hooks.Remind,
		Shell: clock.New(c.hooks.Shell), Formats: c.hooks.Formats, Executing: c.hooks.Executed,
		OutboundBytes: maxOutboundBytes, Linger: c.Hardening.Linger,
		CallPatience: s.calls.Longest(), Failed: s.fail,
	})
	if err != nil {
		return err
	}
	s.group, s.store, s.calls.Group = opened, opened.Log(), opened
	s.readiness.Store = s.store
	if c.hooks.Opened != nil {
		c.hooks.Opened(opened)
	}
	s.readiness.Store, s.admin.Store = s.store, s.store
	s.inspect.Store(&inspect.Service{History: s.newHistory(), Runner: s.calls, Serves: s.inspects, Logger: c.Logger,
		Boards: inspect.NewBoards(s.group), Database: c.Database})
	return nil
}

// newHistory makes the history of what happens on this server.
func (s *Server) newHistory() *history.History {
	c := history.Config{Server: s.store.Member(), Logger: s.config.Logger, Take: s.group.Events().Take,
		Base: s.group.Events().Base, Received: s.store.Received,
		Name: func(id uint64) string { return s.store.Members().NameOf(id) }, Space: s.store.Space.Writable}
	if !s.config.InMemory {
		c.FS, c.Dir = files.Disk{}, filepath.Join(s.config.DataDir, history.Dir)
	}
	return history.New(c)
}

// becomeReady returns when there is a leader, everything that matters of the log is applied, and the first
// limits and the first administrator are there.
func (s *Server) becomeReady(ctx context.Context) error {
	for _, reached := range []<-chan struct{}{s.group.Ready(), s.readiness.Reached()} {
		select {
		case <-reached:
		case <-s.done:
			return s.Err()
		case <-ctx.Done():
			return fmt.Errorf("start: %w", ctx.Err())
		}
	}
	s.stateLimit.SetFirst(ctx)
	s.stateLimit.Log()
	err := s.users.AddFirst(ctx, s.config.InitialAdmin, s.config.InitialAdminPassword)
	if errors.Is(err, auth.ErrPasswordLength) {
		return &ConfigError{err}
	}
	return err
}

// TransportOptions are gRPC's options about messages and connections, whatever is served on them. Those that
// are idle for that long are closed; 0: never. What conformance/bench compares a server with has the same
// ones.
func TransportOptions(idle time.Duration) []grpc.ServerOption {
	return transportOptions(idle, keepaliveTimeout)
}

// transportOptions is that, with how long a sign of life may take.
func transportOptions(idle, keepaliveAnswer time.Duration) []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.MaxRecvMsgSize(maxRequestBytes),
		grpc.MaxSendMsgSize(maxMessageBytes),
		grpc.MaxHeaderListSize(maxHeaderBytes),
		// Fixed windows: to find one of its own, gRPC would answer every message with a ping and a window
		// update.
		grpc.StaticStreamWindowSize(streamWindowBytes),
		grpc.StaticConnWindowSize(connectionWindowBytes),
		// SDKs ping every few seconds, some of them without a stream (surface.md §6).
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: minPingGap,
			PermitWithoutStream: true}), grpc.KeepaliveParams(keepalive.ServerParameters{Time: keepaliveTime,
			Timeout: keepaliveAnswer, MaxConnectionIdle: idle}),
	}
}

func (s *Server) startGRPC() {
	audit := admin.NewAudit(s.group, s.config.Logger)
	options := append(s.connections.Options(kindOf, mostBytes, s.meters.Ended),
		transportOptions(s.config.Hardening.Idle, cmp.Or(s.config.replaced.keepalive, keepaliveTimeout))...)
	s.http.methods = make(map[string]console.Method)
	s.http.interceptors = interceptors{s.panics.Unary, calls.Debug(s.config.Logger), audit.Unary, s.held.unary}
	options = append(options,
		grpc.MaxConcurrentStreams(uint32(s.config.Hardening.StreamsPerConnection)),
		grpc.ConnectionTimeout(s.config.Hardening.Handshake),
		grpc.ChainStreamInterceptor(s.panics.Stream),
		grpc.WaitForHandlers(true),
		grpc.Creds(s.connections.Credentials(s.tls)),
		grpc.ChainStreamInterceptor(s.admitStream, audit.Stream),
		grpc.UnknownServiceHandler(s.answerUnknown),
	)
	if faults := s.config.hooks.Faults; faults != nil {
		faults.Serve(control{s})
		s.http.interceptors = append(s.http.interceptors, faults.Call())
		options = append(options, grpc.ChainStreamInterceptor(faults.Stream()))
	}
	s.grpc = grpc.NewServer(append(options, grpc.UnaryInterceptor(s.http.interceptors.call))...)
	admitted := admittingServices{s.grpc, s}
	Ydb_Coordination_V1.RegisterCoordinationServiceServer(admitted,
		services.Coordination{Runner: s.calls, Sessions: s.sessions.Serve})
	Ydb_Scheme_V1.RegisterSchemeServiceServer(admitted, services.Scheme{Runner: s.calls})
	Ydb_Discovery_V1.RegisterDiscoveryServiceServer(admitted, s.discovery)
	Ydb_Auth_V1.RegisterAuthServiceServer(admitted, s.users)
	adminpb.RegisterUsersServer(admitted, s.users)
	adminpb.RegisterClusterServer(admitted, s.admin.Cluster)
	adminpb.RegisterConsoleServer(admitted, s.admin)
	adminpb.RegisterInspectServer(admitted, s.inspect.Load())
	Ydb_RateLimiter_V1.RegisterRateLimiterServiceServer(admitted, services.Limiter{Runner: s.calls})
	Ydb_Operation_V1.RegisterOperationServiceServer(admitted, services.Operations{})
	Ydb_Monitoring_V1.RegisterMonitoringServiceServer(admitted, s.readiness)
	s.health = health.NewServer()
	grpc_health_v1.RegisterHealthServer(admitted, s.health)
	reflection.Register(admitted)
	s.http.console = s.newConsole()
	s.readiness.Answer(s.health, slices.Collect(maps.Keys(s.grpc.GetServiceInfo())))
	if s.listener != nil {
		s.serveOn(s.connections.Count(s.behindFaults(s.listener)))
	}
	if s.tls != nil {
		s.tls.Listener = s.connections.Count(s.behindFaults(s.tls.Listener))
		s.serveOn(s.tls)
	}
	s.serveSockets()
}

func (s *Server) behindFaults(listener net.Listener) net.Listener {
	if faults := s.config.hooks.Faults; faults != nil {
		return faults.Listen(listener)
	}
	return listener
}

// serveSockets serves the socket in the data directory, and the one for the group: a caller that can open one of them
// is an administrator. Where a socket cannot be made, as on some file systems, the server logs that and goes on.
func (s *Server) serveSockets() {
	serve := func(socket net.Listener, err error) {
		if err != nil {
			s.config.Logger.Warn("no administrator's socket: administrators have to log in", "error", err)
			return
		}
		s.serveOn(s.connections.Count(socket))
	}
	if !s.config.InMemory {
		serve(s.config.hooks.Socket(s.config.DataDir))
	}
	if s.config.AdminSocket != "" {
		serve(listen.GroupSocketAt(s.config.AdminSocket))
	}
}

func (s *Server) serveOn(listener net.Listener) {
	s.serving.Add(1)
	go func() {
		defer s.serving.Done()
		err := s.grpc.Serve(listener)
		if err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			s.fail(fmt.Errorf("serve %s: %w", listener.Addr(), err))
		}
	}()
}

// Group is the replicated log with what stands on it, for the stand-in, which looks inside and turns the
// clock.
func (s *Server) Group(hooks.Key) *group.Group { return s.group }

// Addr is the address that the server listens on without TLS, or where it does not, with TLS.
func (s *Server) Addr() net.Addr {
	if s.listener == nil {
		return s.tls.Addr()
	}
	return s.listener.Addr()
}

// ConnectionString is the connection string for clients, such as grpc://127.0.0.1:2136/local, or the same of a proxy
// that ends TLS. Where clients are served with TLS only, it is TLSConnectionString.
func (s *Server) ConnectionString() string {
	if s.listener == nil {
		return s.TLSConnectionString()
	}
	if at := s.discovery.Advertised.Proxied; at != (discovery.HostPort{}) {
		return discovery.ProxyScheme + at.String() + s.config.Database
	}
	return "grpc://" + s.discovery.Advertised.Plain.String() + s.config.Database
}

// TLSConnectionString is the connection string for the TLS listener, such as grpcs://localhost:2135/local; empty
// without one.
func (s *Server) TLSConnectionString() string {
	if s.tls == nil {
		return ""
	}
	return "grpcs://" + s.discovery.Advertised.TLS.String() + s.config.Database
}

// Readiness returns the present readiness. It may be called as soon as Start has returned.
func (s *Server) Readiness() readiness.State { return s.readiness.Readiness() }

// Progress implements Working.
func (s *Server) Progress(ctx context.Context) bool {
	return s.store.Progress(ctx) && group.Progress(ctx, s.group) || s.store.AwaitsDisk()
}

// Leads reports whether this server leads and serves as the leader.
func (s *Server) Leads() bool { return s.group.Leads() }

// Done is closed when the server cannot go on; Err says why.
func (s *Server) Done() <-chan struct{} { return s.done }

// Err is why Done is closed, nil before.
func (s *Server) Err() error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.err
}

// fail notes the first reason for which the server cannot go on. From then on nothing is acknowledged any
// more.
func (s *Server) fail(err error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.err == nil {
		s.err = err
		close(s.done)
	}
}

// sharedSettings are the settings that should be the same on all servers of a cluster, by the names of their
// flags: a client is sent to any of them.
func (s *Server) sharedSettings() []settings.Setting {
	return []settings.Setting{
		{Name: "database", Value: s.config.Database},
		{Name: "auth", Value: cmp.Or(s.config.Auth, AuthOff)},
		{Name: "login-lifetime", Value: s.auth.LoginLifetime.String()},
		{Name: "token-file", Value: s.auth.TokensText()},
	}
}
