package serve

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/internal/cmdline"
	"github.com/coordd/coordd/internal/exit"
	"github.com/coordd/coordd/internal/notify"
	"github.com/coordd/coordd/raftstore"
	"github.com/coordd/coordd/raftstore/datadir"
	"github.com/coordd/coordd/server"
	"github.com/coordd/coordd/server/group"
	"github.com/coordd/coordd/server/group/compare"
	"github.com/coordd/coordd/server/listen"
)

// Start starts a server with the settings.
func Start(ctx context.Context, s Settings, values map[string]Given, logger *slog.Logger) (Server, error) {
	config, err := ServerConfig(s, values, logger)
	if err != nil {
		return nil, err
	}
	if err := config.Validate(); err != nil {
		return nil, exit.With(exit.Config, &server.ConfigError{Err: err})
	}
	if err := RefuseFile(string(s.DataDir)); err != nil {
		return nil, Coded(err)
	}
	config.Listening = func(s server.Working) { report(s, notify.Of(os.Getenv), logger) }
	started, err := server.Start(ctx, config)
	if err != nil {
		return nil, AboutListener(Coded(err), s, values)
	}
	return failingServer{started}, nil
}

// watchdogParts divides the service manager's time by the number of reports in it.
const watchdogParts = 3

// report notifies the service manager that clients can connect and, where it watches the service, of the server's
// progress until no client is served any more.
func report(s server.Working, manager *notify.Manager, logger *slog.Logger) {
	send := func(state string) {
		if err := manager.Send(state); err != nil {
			logger.Warn("cannot notify the service manager", "state", state, "error", err)
		}
	}
	send(notify.Ready)
	period := manager.Watchdog() / watchdogParts
	if period == 0 {
		return
	}
	go func() {
		for tick := time.NewTicker(period); ; {
			select {
			case <-s.Drained():
				tick.Stop()
				return
			case <-tick.C:
			}
			ctx, cancel := context.WithTimeout(context.Background(), period)
			if s.Progress(ctx) {
				send(notify.Alive)
			} else {
				logger.Error("no progress: the service manager is not notified")
			}
			cancel()
		}
	}()
}

// ServerConfig makes the configuration of a server of the settings.
func ServerConfig(s Settings, values map[string]Given, logger *slog.Logger) (server.Config, error) {
	if err := s.together(values); err != nil {
		return server.Config{}, exit.With(exit.Config, &server.ConfigError{Err: err})
	}
	config := server.Config{
		Listen:    string(s.Listen),
		Advertise: string(s.Advertise),
		Database:  string(s.Database),
		Version:   cmdline.Version,
		DataDir:   string(s.DataDir),
		InMemory:  s.InMemory,
		Logger:    logger,

		HTTP: s.HTTP.configuration(values, certificatesOf(s)),

		DiskReserve: uint64(s.Reserve),
		Resources:   settleResources(logger, !s.InMemory),
		Hardening: server.Hardening{
			StreamsPerConnection: s.StreamsPerConnection, Streams: s.Streams,
			ConnectionsPerAddress: s.ConnectionsPerAddress,
		},

		ListenTLS:    string(s.TLS.Listen),
		AdvertiseTLS: string(s.TLS.Advertise),
		TLS: listen.TLSFiles{Certificate: string(s.TLS.Certificate), Key: string(s.TLS.Key),
			ClientCA: string(s.TLS.ClientCA), ClientRequired: bool(s.TLS.ClientRequired)},
		Auth:          s.Auth.Mode,
		TokenFile:     string(s.Auth.TokenFile),
		LoginLifetime: s.Auth.LoginLifetime,
		LoopbackAdmin: s.Auth.LoopbackAdmin,
		AdminSocket:   string(s.Auth.Socket),
		Inspect:       s.Auth.Inspect,
		InitialAdmin:  string(s.Auth.Admin),
	}
	config.Limits = coordination.DefaultLimits()
	config.Limits.State = uint64(s.StateLimit)
	cluster, err := s.Cluster.configuration(logger)
	if err != nil {
		return server.Config{}, exit.With(exit.Config, &server.ConfigError{Err: err})
	}
	config.Cluster = cluster
	if s.Auth.AdminPasswordFile != "" {
		password, err := ReadPasswordFile(string(s.Auth.AdminPasswordFile))
		if err != nil {
			return server.Config{}, exit.With(exit.Config, &server.ConfigError{Err: err})
		}
		config.InitialAdminPassword = password
	}
	return config, nil
}

// failingServer gives the reason for which a server ended its exit code.
type failingServer struct{ *server.Server }

// Err is the server's reason. Apart from a listener that breaks and from a mistake
// in the program, a server ends by itself only because its storage failed, whatever
// the error looks like.
func (s failingServer) Err() error { return CodedEnd(s.Server.Err()) }

// CodedEnd gives the error that a server ended with its exit code.
func CodedEnd(err error) error {
	var network *net.OpError
	var broken *group.InvariantError
	var diverged *compare.DivergedError
	var corruption *datadir.CorruptionError
	switch {
	case err == nil || errors.As(err, &network) || errors.As(err, &broken):
		return err
	case errors.Is(err, raftstore.ErrRemoved), errors.Is(err, raftstore.ErrEmptied),
		errors.As(err, &diverged), errors.As(err, &corruption):
		return Coded(err)
	}
	return exit.With(exit.Storage, err)
}

// RefuseFile fails where something that is no directory stands in the place of the
// directory or of one above it. A directory that does not exist is left to those
// who make or need it.
func RefuseFile(directory string) error {
	status, err := os.Stat(directory)
	switch {
	case errors.Is(err, syscall.ENOTDIR):
		return err
	case err == nil && !status.IsDir():
		return &fs.PathError{Op: "open", Path: directory, Err: syscall.ENOTDIR}
	default:
		return nil
	}
}

// Coded gives an error of the server or its storage the exit code it stands for.
func Coded(err error) error {
	var corruption *datadir.CorruptionError
	var format *datadir.FormatError
	var version *raftstore.VersionError
	var setting *server.ConfigError
	var diverged *compare.DivergedError
	var condemned *datadir.CondemnedError
	var network *net.OpError
	var path *fs.PathError
	var system syscall.Errno
	switch {
	case err == nil:
		return nil
	case errors.Is(err, raftstore.ErrRemoved):
		return exit.With(exit.Removed,
			fmt.Errorf("%w; it can be added again as a new one, with an empty data directory", err))
	case errors.Is(err, raftstore.ErrEmptied):
		return exit.With(exit.Config,
			fmt.Errorf("%w: its data is gone, so remove it (`coordd cluster remove NAME`), add it again "+
				"(`coordd cluster add NAME HOST:PORT`) and start it with an empty data directory and --join",
				err))
	case errors.Is(err, datadir.ErrHalfRestored):
		return exit.With(exit.Config, fmt.Errorf("%w; run `coordd cluster restore` again with the same settings, "+
			"or empty the directory to start without the backup", err))
	case errors.As(err, &diverged), errors.As(err, &condemned):
		return exit.With(exit.Diverged,
			fmt.Errorf("%w; keep the directory for whoever looks for the cause, remove the server "+
				"from its cluster (`coordd cluster remove NAME`), add it again (`coordd cluster add NAME "+
				"HOST:PORT`) and start it "+
				"with an empty data directory and --join", err))
	case errors.Is(err, raftstore.ErrOtherCluster):
		return exit.With(exit.Config,
			fmt.Errorf("%w (see --initial-cluster and --cluster-token, the same on each server, and --peer-cert)", err))
	case errors.Is(err, datadir.ErrLocked), errors.Is(err, datadir.ErrNotData), errors.As(err, &format),
		errors.As(err, &version), errors.As(err, &setting):
		// another directory or program is wanted
		return exit.With(exit.Config, err)
	case errors.As(err, &corruption):
		return exit.With(exit.Damaged, err)
	case errors.As(err, &network): // a network error holds the same system errors as a file's
		return exit.With(exit.Failure, err)
	case unusableDirectory(err):
		return exit.With(exit.Config, err)
	case errors.As(err, &path), errors.As(err, &system): // no space, an input or output error, ...
		return exit.With(exit.Storage, err)
	default:
		return err
	}
}

// unusableDirectory recognizes the system errors that an operator mends by naming
// another directory or changing its rights, as opposed to a disk that fails.
func unusableDirectory(err error) bool {
	for _, cause := range []error{
		fs.ErrPermission, fs.ErrNotExist, syscall.ENOTDIR, syscall.EROFS, syscall.ENAMETOOLONG, syscall.ELOOP,
	} {
		if errors.Is(err, cause) {
			return true
		}
	}
	return false
}
