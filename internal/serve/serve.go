package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/coordd/coordd/internal/cmdline"
	"github.com/coordd/coordd/internal/exit"
	"github.com/coordd/coordd/internal/notify"
	"github.com/coordd/coordd/server"
)

// StopTimeout limits how long a stop waits for clients. With the time allowed on top
// it is two seconds, whatever the server does.
const StopTimeout = 1600 * time.Millisecond

// errStoppedAtOnce is the result of a second stop request.
var errStoppedAtOnce = errors.New("stopped at once by a second signal; nothing acknowledged is lost")

// Server is a server that has started, as Process sees it.
type Server interface {
	// ConnectionString returns the connection string for clients.
	ConnectionString() string
	// TLSConnectionString is the same for the TLS listener, empty without one.
	TLSConnectionString() string
	// Done is closed when the server has ended by itself.
	Done() <-chan struct{}
	// Err says why, once Done is closed; nil for a server that did not fail.
	Err() error
	// Drained is closed when a stop has come so far that nobody is served any more
	// and only what is on disk is left to be closed.
	Drained() <-chan struct{}
	// Stop ends the server and returns when all it held is released, or with an
	// error when ctx ends first.
	Stop(ctx context.Context) error
}

// StartFunc starts a server and returns when it serves; values say where the settings
// come from, for its errors. The end of ctx before
// that gives up; after it, ctx has no meaning. Errors carry their exit code.
type StartFunc func(ctx context.Context, s Settings, values map[string]Given,
	logger *slog.Logger) (Server, error)

// Process runs a server as a process: from its start to its stop.
type Process struct {
	*cmdline.Env // the connection string goes to its Stdout, the log to its Stderr
	Start        StartFunc
	// StopTimeout limits how long a stopping server waits for clients.
	StopTimeout time.Duration
	// LogConsole logs a link to the console, which a server that guards anything must not do.
	LogConsole bool
}

// Run runs a server until it is asked to stop or ends by itself. It returns nil
// after a clean stop; all other errors carry their exit code.
func (p *Process) Run(s Settings, values map[string]Given) error {
	signals := p.Signals()
	logger := newLogger(p.Stderr, s)
	if manager := notify.Of(p.Environ.Value); manager != nil {
		logger = slog.New(progressHandler{logger.Handler(), manager})
	}
	p.logConfiguration(logger, s, values)
	s.settleLocalYDB(values, logger)

	ctx, release := context.WithCancel(context.Background())
	defer release()
	server, err := p.launch(ctx, release, s, values, logger, signals)
	if err != nil {
		return AboutDataDir(err, s.DataDir, values)
	}
	if server == nil {
		return nil
	}
	spaceCollections(!s.InMemory)
	logger.Info("serving", "connection", server.ConnectionString())
	if tls := server.TLSConnectionString(); tls != "" {
		logger.Info("serving with TLS", "connection", tls)
	}
	if _, err := fmt.Fprintln(p.Stdout, server.ConnectionString()); err != nil {
		logger.Warn("cannot print the connection string", "error", err)
	}

	p.offerConsole(server, s, logger)

	select {
	case <-server.Done():
		return AboutDataDir(p.ended(server, signals, logger), s.DataDir, values)
	case received := <-signals:
		logger.Info("stopping", "signal", received.String())
		p.notifyStopping(logger)
		err := p.stop(server, logger, signals)
		if reason := server.Err(); reason != nil { // it failed at the same time, or while it stopped
			err = AboutDataDir(reason, s.DataDir, values)
		}
		if err == nil {
			logger.Info("stopped")
		}
		return err
	}
}

func (p *Process) notifyStopping(logger *slog.Logger) {
	if err := notify.Of(p.Environ.Value).Send(notify.Stopping); err != nil {
		logger.Warn("cannot notify the service manager", "error", err)
	}
}

// offerConsole shows a link to the console where every client may do everything: at the terminal at which the server
// was started, or in the log.
func (p *Process) offerConsole(from Server, s Settings, logger *slog.Logger) {
	console, has := from.(interface{ ConsoleLink() string })
	file, is := cmdline.Exact(p.Stderr).(*os.File)
	if is {
		info, err := file.Stat()
		is = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	if !has || !p.LogConsole && (s.Auth.Mode == server.AuthRequired || !is) {
		return
	}
	if link := console.ConsoleLink(); link != "" && is {
		_, _ = fmt.Fprintln(file, "console, for one browser within 5 minutes:", link)
	} else if link != "" {
		logger.Info("console, for one browser within 5 minutes", "link", link)
	}
}

// launch starts the server under ctx. A stop request in the meantime calls giveUp,
// which ends ctx, and the result is no server and no error.
func (p *Process) launch(ctx context.Context, giveUp func(), s Settings, values map[string]Given,
	logger *slog.Logger, signals <-chan os.Signal) (Server, error) {
	type result struct {
		server Server
		err    error
	}
	started := make(chan result, 1) // so that a start nobody waits for any more can end
	go func() {
		server, err := p.Start(ctx, s, values, logger)
		started <- result{server, err}
	}()

	select {
	case r := <-started:
		return r.server, r.err
	case received := <-signals:
		logger.Info("stopping before the server is ready", "signal", received.String())
		p.notifyStopping(logger) // which may have been notified that it is
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
	case <-time.After(p.StopTimeout + p.StopTimeout/4):
		logger.Warn("ending although the start is still under way; nothing was acknowledged")
		return nil, nil
	}
}

// stop ends a server, or gives up on a further signal. The server has StopTimeout
// to be polite to clients and a quarter of it on top to release what it holds. A
// server that has nothing left to do for clients by then, but waits for its disk,
// is left as it is: that loses nothing, and the kernel ends the process as soon as
// the disk lets it. One that has not come so far is given twice that: the machine
// may be slow.
func (p *Process) stop(server Server, logger *slog.Logger, signals <-chan os.Signal) error {
	ctx, cancel := context.WithTimeout(context.Background(), p.StopTimeout)
	defer cancel()
	stopped := make(chan error, 1)
	go func() { stopped <- server.Stop(ctx) }()
	bound := time.After(p.StopTimeout + p.StopTimeout/4)
	giveUp := time.After(3 * p.StopTimeout)
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

// ended releases the resources of a server that ended by itself and returns the reason, which becomes the error of the
// process.
func (p *Process) ended(server Server, signals <-chan os.Signal, logger *slog.Logger) error {
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

// logConfiguration logs the server's settings, and warns of those that an operator may not have meant.
func (p *Process) logConfiguration(logger *slog.Logger, s Settings, values map[string]Given) {
	starting := []any{"version", cmdline.Version, "pid", os.Getpid(), "listen", string(s.Listen),
		"database", string(s.Database), "data_dir", string(s.DataDir)}
	for _, o := range Options {
		logger.Debug("setting", "name", o.Name, "value", values[o.Name].Value, "from", values[o.Name].Origin)
		if attribute := strings.ReplaceAll(o.Name, "-", "_"); values[o.Name].Origin != "default" &&
			!slices.Contains(starting, any(attribute)) {
			starting = append(starting, attribute, values[o.Name].Value)
		}
	}
	logger.Info("starting", starting...) // with what differs from the defaults
	for _, warning := range misspeltVariables(p.Environ, Options) {
		logger.Warn(warning)
	}
	if warning := s.unlikePeers(); warning != "" {
		logger.Warn(warning)
	}
	warnOfModes(logger, s)
	if s.Listen.reachable() {
		logger.Warn("clients on other machines can connect and nothing is encrypted", "listen", s.Listen)
	}
	s.HTTP.warn(logger)
	if s.Cluster.Insecure && Reachable(string(s.Cluster.Listen)) {
		logger.Warn("whoever reaches the port for the other servers can do everything, as an administrator: "+
			"--insecure-peers proves nobody's identity", "listen_peer", s.Cluster.Listen)
	}
	if s.Auth.LoopbackAdmin {
		logger.Warn("everybody on this machine, and everybody behind a proxy on it, may do what administrators do: " +
			"--loopback-admin goes away with the next release, use the socket in the data directory")
	}
	if s.Auth.Mode != server.AuthRequired && (s.Auth.TokenFile != "" || s.Auth.Admin != "" ||
		s.TLS.ClientCA != "") {
		logger.Warn("users can prove who they are, but nobody has to: give --auth=required to make permissions count")
	}
}

// AboutDataDir adds the data directory and who chose it to an error about
// storage. Other errors stay as they are.
func AboutDataDir(err error, directory Directory, values map[string]Given) error {
	code := exit.Of(err)
	var setting *server.ConfigError
	if errors.As(err, &setting) || directory == "" || code != exit.Storage && code != exit.Config &&
		code != exit.Damaged && code != exit.Diverged {
		return err
	}
	whose := ""
	if errors.Is(err, fs.ErrPermission) {
		whose = fmt.Sprintf("; this process runs as user %d, who has to own the directory", os.Geteuid())
	}
	return exit.With(code, fmt.Errorf("data directory %s (%s): %w%s", directory, values[DataDirName].Origin,
		err, whose))
}

// newLogger makes the log that settings ask for.
func newLogger(w io.Writer, s Settings) *slog.Logger {
	options := &slog.HandlerOptions{Level: s.LogLevel}
	if s.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}
