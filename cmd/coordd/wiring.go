package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"syscall"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/raftstore"
	"github.com/coordd/coordd/server"
	"github.com/coordd/coordd/server/group"
	"github.com/coordd/coordd/server/listen"
)

// startServer starts the real server.
func startServer(ctx context.Context, s settings, values map[string]given, logger *slog.Logger) (runningServer, error) {
	config, err := serverConfig(s, values, logger)
	if err != nil {
		return nil, err
	}
	if err := config.Validate(); err != nil {
		return nil, withCode(exitConfig, &server.ConfigError{Err: err})
	}
	if err := refuseFile(s.dataDir); err != nil {
		return nil, coded(err)
	}
	started, err := server.Start(ctx, config)
	if err != nil {
		return nil, aboutListener(coded(err), s, values)
	}
	return failingServer{started}, nil
}

// serverConfig is what the settings say to the server.
func serverConfig(s settings, values map[string]given, logger *slog.Logger) (server.Config, error) {
	if err := s.together(values); err != nil {
		return server.Config{}, withCode(exitConfig, &server.ConfigError{Err: err})
	}
	config := server.Config{
		Listen:    s.listen,
		Advertise: s.advertise,
		Database:  s.database,
		DataDir:   s.dataDir,
		InMemory:  s.inMemory,
		Logger:    logger,

		HTTP: s.http.configuration(values),

		DiskReserve: s.reserve,
		Resources:   settleResources(logger, !s.inMemory),
		Hardening: server.Hardening{
			StreamsPerConnection: s.streamsPerConnection, Streams: s.streams,
			ConnectionsPerAddress: s.connectionsPerAddress,
		},

		ListenTLS:    s.tls.listen,
		AdvertiseTLS: s.tls.advertise,
		TLS: listen.TLSFiles{Certificate: s.tls.certificate, Key: s.tls.key,
			ClientCA: s.tls.clientCA, ClientRequired: s.tls.clientRequired},
		Auth:          s.auth.mode,
		TokenFile:     s.auth.tokenFile,
		LoginLifetime: s.auth.loginLifetime,
		LoopbackAdmin: s.auth.loopbackAdmin,
		Inspect:       s.auth.inspect,
		InitialAdmin:  s.auth.admin,
	}
	config.Limits = coordination.DefaultLimits()
	config.Limits.State = s.stateLimit
	cluster, err := s.cluster.configuration(logger)
	if err != nil {
		return server.Config{}, withCode(exitConfig, &server.ConfigError{Err: err})
	}
	config.Cluster = cluster
	if s.auth.adminPasswordFile != "" {
		password, err := readPasswordFile(s.auth.adminPasswordFile)
		if err != nil {
			return server.Config{}, withCode(exitConfig, &server.ConfigError{Err: err})
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
func (s failingServer) Err() error { return codeOfEnd(s.Server.Err()) }

// codeOfEnd is what a server's Err says, with its exit code.
func codeOfEnd(err error) error {
	var network *net.OpError
	var broken *group.InvariantError
	var diverged *group.DivergedError
	switch {
	case err == nil || errors.As(err, &network) || errors.As(err, &broken):
		return err
	case errors.Is(err, raftstore.ErrRemoved), errors.Is(err, raftstore.ErrEmptied),
		errors.As(err, &diverged):
		return coded(err)
	}
	return withCode(exitStorage, err)
}

// refuseFile fails where something that is no directory stands in the place of the
// directory or of one above it. A directory that does not exist is left to those
// who make or need it.
func refuseFile(directory string) error {
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

// coded gives an error of the server or its storage the exit code it stands for.
func coded(err error) error {
	var corruption *raftstore.CorruptionError
	var format *raftstore.FormatError
	var version *raftstore.VersionError
	var setting *server.ConfigError
	var diverged *group.DivergedError
	var condemned *raftstore.CondemnedError
	var network *net.OpError
	var path *fs.PathError
	var system syscall.Errno
	switch {
	case err == nil:
		return nil
	case errors.Is(err, raftstore.ErrRemoved):
		return withCode(exitRemoved,
			fmt.Errorf("%w; it can be added again as a new one, with an empty data directory", err))
	case errors.Is(err, raftstore.ErrEmptied):
		return withCode(exitConfig,
			fmt.Errorf("%w: its data is gone, so remove it (`coordd cluster remove NAME`), add it again "+
				"(`coordd cluster add NAME HOST:PORT`) and start it with an empty data directory and --join",
				err))
	case errors.Is(err, raftstore.ErrHalfRestored):
		return withCode(exitConfig, fmt.Errorf("%w; run `coordd cluster restore` again with the same settings, "+
			"or empty the directory to start without the backup", err))
	case errors.As(err, &diverged), errors.As(err, &condemned):
		return withCode(exitDiverged,
			fmt.Errorf("%w; keep the directory for whoever looks for the cause, remove the server "+
				"from its cluster (`coordd cluster remove NAME`), add it again (`coordd cluster add NAME "+
				"HOST:PORT`) and start it "+
				"with an empty data directory and --join", err))
	case errors.Is(err, raftstore.ErrOtherCluster):
		return withCode(exitConfig,
			fmt.Errorf("%w (see --initial-cluster and --cluster-token, the same on each server, and --peer-cert)", err))
	case errors.Is(err, raftstore.ErrLocked), errors.Is(err, raftstore.ErrNotData), errors.As(err, &format),
		errors.As(err, &version), errors.As(err, &setting):
		// another directory or program is wanted
		return withCode(exitConfig, err)
	case errors.As(err, &corruption):
		return withCode(exitStorage, err)
	case errors.As(err, &network): // a network error holds the same system errors as a file's
		return withCode(exitFailure, err)
	case unusableDirectory(err):
		return withCode(exitConfig, err)
	case errors.As(err, &path), errors.As(err, &system): // no space, an input or output error, ...
		return withCode(exitStorage, err)
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
