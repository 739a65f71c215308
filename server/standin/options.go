package standin

import (
	"cmp"
	"errors"
	"log/slog"
	"time"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/server/standin/faults"
)

// Option changes what Start and Run begin with.
type Option func(*settings)

type settings struct {
	database string
	users    []User
	tls      bool
	limits   coordination.Limits
	servers  int
	dir      string
	fakeTime bool
	patience time.Duration
	pong     time.Duration
	logger   *slog.Logger
	tap      faults.Tap
	fixture  string
}

// defaultPongPatience limits, by the real clock, the wait for a client to answer a ping during Advance, or to read its
// messages. A slower client is not waited for until it has caught up.
const defaultPongPatience = time.Second

// defaultPatience limits Await and its like, by the real clock.
const defaultPatience = 10 * time.Second

func collect(options []Option) (settings, error) {
	s := settings{database: "/local", servers: 1, limits: coordination.DefaultLimits(),
		patience: defaultPatience, pong: defaultPongPatience, logger: slog.New(slog.DiscardHandler)}
	for _, option := range options {
		option(&s)
	}
	if s.servers < 1 || s.servers > maxServers {
		return s, errors.New("a stand-in has 1 to 9 servers")
	}
	return s, nil
}

// maxServers is the largest number of servers of a stand-in.
const maxServers = 9

// Database is the absolute path under which everything lives, instead of /local.
func Database(path string) Option { return func(s *settings) { s.database = path } }

// User may log in.
type User struct {
	Name, Password string
	// Administrator may do everything. Others may do nothing until an administrator gives them rights.
	Administrator bool
}

// Users has the server refuse everybody but these.
func Users(users ...User) Option {
	return func(s *settings) { s.users = append(s.users, users...) }
}

// TLS encrypts connections. Clients have to trust CertificateAuthority.
func TLS() Option { return func(s *settings) { s.tls = true } }

// Limits lowers the limits of a coordination node, so that a test can reach them. A field that is 0 is left
// as it is.
func Limits(l coordination.Limits) Option {
	return func(s *settings) {
		s.limits.State = cmp.Or(l.State, s.limits.State)
		s.limits.Sessions = cmp.Or(l.Sessions, s.limits.Sessions)
		s.limits.Semaphores = cmp.Or(l.Semaphores, s.limits.Semaphores)
		s.limits.Bytes = cmp.Or(l.Bytes, s.limits.Bytes)
		s.limits.Described = cmp.Or(l.Described, s.limits.Described)
	}
}

// Servers makes a cluster of so many servers, in this process and with real elections between them. They have
// data directories, which are removed in the end unless there is Dir, and take a second or two to start.
func Servers(n int) Option { return func(s *settings) { s.servers = n } }

// Dir keeps the data in a directory, which is made if it is missing. A later stand-in finds it there.
func Dir(path string) Option { return func(s *settings) { s.dir = path } }

// FakeTime has time stand still for sessions, waits and grace periods, until Advance.
func FakeTime() Option { return func(s *settings) { s.fakeTime = true } }

// Patience limits Await and its like, by the real clock, instead of 10 seconds.
func Patience(d time.Duration) Option { return func(s *settings) { s.patience = d } }

// PongPatience limits Advance's wait for a client to answer a ping, by the real clock, instead of a second. A
// machine that is very busy needs more; a client that never answers costs as much once.
func PongPatience(d time.Duration) Option { return func(s *settings) { s.pong = d } }

// Tap is called with the messages of clients and servers, from the first client on; see faults.Set.SetTap.
func Tap(t faults.Tap) Option { return func(s *settings) { s.tap = t } }

// Fixture is loaded before the start is over; see Server.Load.
func Fixture(text string) Option { return func(s *settings) { s.fixture = text } }

// Logger gets what the servers log; without it nobody does.
func Logger(l *slog.Logger) Option { return func(s *settings) { s.logger = l } }
