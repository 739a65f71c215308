package testserver

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Server is a coordd of a test. It keeps its address, arguments and log from one process to the next.
type Server struct {
	*Process // the last one
	Address  string
	// Config is that of the next process.
	Config Config
	// Name, Peer and Data are those of a server of a cluster.
	Name, Peer, Data string

	t testing.TB
}

// New returns a server that is not started, with further arguments of `coordd serve`. When the test ends, it is
// stopped and must exit with code 0, unless it was killed.
func New(t testing.TB, args ...string) *Server {
	t.Helper()
	s := &Server{t: t, Address: Address(t)}
	s.Config = Config{Program: Binary(t), Args: append([]string{"serve", "--listen", s.Address}, args...),
		// The servers of all tests would want the one default address for monitoring programs.
		Env: append(os.Environ(), "COORDD_LISTEN_HTTP=off"), Log: filepath.Join(t.TempDir(), "log")}
	t.Cleanup(func() {
		if s.Process == nil {
			return
		}
		s.Stop()
		if t.Failed() {
			t.Logf("log of coordd %s:\n%s", strings.Join(s.Config.Args, " "), s.LogTail())
		}
	})
	return s
}

// Serve starts a server and waits until it serves.
func Serve(t testing.TB, args ...string) *Server {
	t.Helper()
	s := New(t, args...)
	s.Start()
	return s
}

// Begin starts the server's next process and does not wait for it.
func (s *Server) Begin() {
	s.t.Helper()
	var err error
	if s.Process, err = Start(s.Config); err != nil {
		s.t.Fatal(err)
	}
}

// Await waits until the server serves.
func (s *Server) Await() {
	s.t.Helper()
	if _, err := s.Ready(); err != nil {
		s.t.Fatal(err)
	}
}

// Start starts the server's next process and waits until it serves.
func (s *Server) Start() {
	s.t.Helper()
	s.Begin()
	s.Await()
}

// Stop asks the server to end and fails the test if it does not end well. It does nothing to one that was killed.
func (s *Server) Stop() {
	s.t.Helper()
	select {
	case <-s.Ended():
		return
	default:
	}
	if err := s.Process.Stop(); err != nil {
		s.t.Error(err)
	}
}

// Endpoint returns the connection string.
func (s *Server) Endpoint() string { return "grpc://" + s.Address + "/local" }

// NewCluster returns the servers of a new cluster, one for each name, that are not started. args are of all of them.
func NewCluster(t testing.TB, names []string, args ...string) []*Server {
	t.Helper()
	var members []string
	peers, directory := Addresses(t, len(names)), t.TempDir()
	for i, name := range names {
		members = append(members, name+"="+peers[i])
	}
	servers := make([]*Server, len(names))
	for i, name := range names {
		data := filepath.Join(directory, name)
		servers[i] = New(t, append([]string{"--name", name, "--listen-peer", peers[i], "--insecure-peers",
			"--initial-cluster", strings.Join(members, ","), "--data-dir", data}, args...)...)
		servers[i].Name, servers[i].Peer, servers[i].Data = name, peers[i], data
	}
	return servers
}

// StartCluster starts the servers of a new cluster and waits until they serve.
func StartCluster(t testing.TB, names []string, args ...string) []*Server {
	t.Helper()
	servers := NewCluster(t, names, args...)
	for _, s := range servers {
		s.Begin()
	}
	for _, s := range servers {
		s.Await()
	}
	return servers
}
