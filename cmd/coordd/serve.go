package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/coordd/coordd/server"
)

// stopTimeout is how long a stop may wait for clients. With the time allowed on top
// it is two seconds, whatever the server does.
const stopTimeout = 1600 * time.Millisecond

// errStoppedAtOnce is the result of a second stop request.
var errStoppedAtOnce = errors.New("stopped at once by a second signal; nothing acknowledged is lost")

// serve runs a server until it is asked to stop or ends by itself. It returns nil
// after a clean stop; all other errors carry their exit code.
func (p *program) serve(s settings, values map[string]given) error {
	signals := p.signals()
	logger := newLogger(p.stderr, s)
	p.logConfiguration(logger, s, values)
	s.settleLocalYDB(values, logger)

	ctx, release := context.WithCancel(context.Background())
	defer release()
	server, err := p.launch(ctx, release, s, values, logger, signals)
	if err != nil {
		return aboutDataDir(err, s.dataDir, values)
	}
	if server == nil {
		return nil
	}
	logger.Info("serving", "connection", server.ConnectionString())
	if tls := server.TLSConnectionString(); tls != "" {
		logger.Info("serving with TLS", "connection", tls)
	}
	if _, err := fmt.Fprintln(p.stdout, server.ConnectionString()); err != nil {
		logger.Warn("cannot print the connection string", "error", err)
	}

	select {
	case <-server.Done():
		return aboutDataDir(p.ended(server, signals, logger), s.dataDir, values)
	case received := <-signals:
		logger.Info("stopping", "signal", received.String())
		err := p.stop(server, logger, signals)
		if reason := server.Err(); reason != nil { // it failed at the same time, or while it stopped
			err = aboutDataDir(reason, s.dataDir, values)
		}
		if err == nil {
			logger.Info("stopped")
		}
		return err
	}
}

// launch starts the server under ctx. A stop request in the meantime calls giveUp,
// which ends ctx, and the result is no server and no error.
func (p *program) launch(ctx context.Context, giveUp func(), s settings, values map[string]given,
	logger *slog.Logger, signals <-chan os.Signal) (runningServer, error) {
	type result struct {
		server runningServer
		err    error
	}
	started := make(chan result, 1) // so that a start nobody waits for any more can end
	go func() {
		server, err := p.start(ctx, s, values, logger)
		started <- result{server, err}
	}()

	select {
	case r := <-started:
		return r.server, r.err
	case received := <-signals:
		logger.Info("stopping before the server is ready", "signal", received.String())
		giveUp()
	}
	select {
	case r := <-started:
		if r.err == nil {
			return nil, p.stop(r.server, logger, signals)
		}
		if errors.Is(r.err, context.Canceled) {
			return nil, nil
		}
		return nil, r.err
	case <-signals:
		return nil, errStoppedAtOnce
	case <-time.After(p.stopTimeout + p.stopTimeout/4):
		logger.Warn("ending although the start is still under way; nothing was acknowledged")
		return nil, nil
	}
}

// stop ends a server, or gives up on a further signal. The server has stopTimeout
// to be polite to clients and a quarter of it on top to release what it holds. A
// server that has nothing left to do for clients by then, but waits for its disk,
// is left as it is: that loses nothing, and the kernel ends the process as soon as
// the disk lets it. One that has not come so far is given twice that: the machine
// may be slow.
func (p *program) stop(server runningServer, logger *slog.Logger, signals <-chan os.Signal) error {
	ctx, cancel := context.WithTimeout(context.Background(), p.stopTimeout)
	defer cancel()
	stopped := make(chan error, 1)
	go func() { stopped <- server.Stop(ctx) }()
	bound := time.After(p.stopTimeout + p.stopTimeout/4)
	giveUp := time.After(3 * p.stopTimeout)
	var drained <-chan struct{} // once the bound is passed

	for {
		select {
		case err := <-stopped:
			if err != nil {
				return fmt.Errorf("stop: %w", err)
			}
			return nil
		case <-signals:
			return errStoppedAtOnce
		case <-bound:
			drained = server.Drained()
		case <-drained:
			logger.Warn("ending although the disk, or work that was under way, has not come to an end; nothing " +
				"acknowledged is lost")
			return nil
		case <-giveUp:
			select {
			case <-server.Drained(): // just now
			default:
				return errors.New("stop: the server did not end in time; nothing acknowledged is lost")
			}
		}
	}
}

// ended releases what a server that ended by itself still holds and returns its
// reason, which is what the process ends with.
func (p *program) ended(server runningServer, signals <-chan os.Signal, logger *slog.Logger) error {
	reason := server.Err()
	if reason == nil {
		reason = errors.New("the server ended for no known reason")
	}
	logger.Error("the server has failed", "error", reason)
	if err := p.stop(server, logger, signals); err != nil {
		logger.Warn("the failed server did not stop cleanly", "error", err)
	}
	return reason
}

// logConfiguration says what the server runs with, and warns of what an operator
// may not have meant.
func (p *program) logConfiguration(logger *slog.Logger, s settings, values map[string]given) {
	starting := []any{"version", version, "pid", os.Getpid(), "listen", s.listen, "database", s.database,
		"data_dir", s.dataDir}
	for _, o := range serveOptions {
		logger.Debug("setting", "name", o.name, "value", values[o.name].value, "from", values[o.name].origin)
		if attribute := strings.ReplaceAll(o.name, "-", "_"); values[o.name].origin != "default" &&
			!slices.Contains(starting, any(attribute)) {
			starting = append(starting, attribute, values[o.name].value)
		}
	}
	logger.Info("starting", starting...) // with what differs from the defaults
	for _, warning := range misspeltVariables(p.environment, serveOptions) {
		logger.Warn(warning)
	}
	if warning := s.unlikePeers(); warning != "" {
		logger.Warn(warning)
	}
	warnOfModes(logger, s)
	if s.beyondLoopback() {
		logger.Warn("clients on other machines can connect and nothing is encrypted", "listen", s.listen)
	}
	s.http.warn(logger)
	if s.cluster.insecure && reachable(s.cluster.listen) {
		logger.Warn("whoever reaches the port for the other servers can do everything, as an administrator: "+
			"--insecure-peers proves nobody's identity", "listen_peer", s.cluster.listen)
	}
	if s.auth.loopbackAdmin {
		logger.Warn("everybody on this machine, and everybody behind a proxy on it, may do what administrators do: " +
			"--loopback-admin goes away with the next release, use the socket in the data directory")
	}
	if s.auth.mode != server.AuthRequired && (s.auth.tokenFile != "" || s.auth.admin != "" ||
		s.tls.clientCA != "") {
		logger.Warn("users can prove who they are, but nobody has to: give --auth=required to make permissions count")
	}
}

// aboutDataDir adds the data directory and who chose it to an error about
// storage. Other errors stay as they are.
func aboutDataDir(err error, directory string, values map[string]given) error {
	code := codeOf(err)
	var setting *server.ConfigError
	if errors.As(err, &setting) || directory == "" || code != exitStorage && code != exitConfig &&
		code != exitDiverged {
		return err
	}
	whose := ""
	if errors.Is(err, fs.ErrPermission) {
		whose = fmt.Sprintf("; this process runs as user %d, who has to own the directory", os.Geteuid())
	}
	return withCode(code, fmt.Errorf("data directory %s (%s): %w%s", directory, values[dataDirName].origin,
		err, whose))
}
