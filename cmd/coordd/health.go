package main

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const (
	// healthTimeout is what one question may take by default: less than container platforms wait.
	healthTimeout = 3 * time.Second
	// healthPause is the pause between two questions of --wait.
	healthPause = 100 * time.Millisecond
)

const healthText = `Ask a server whether it serves, and print one line: "serving", with what is wrong
all the same behind it, or "coordd: not serving: " and why, on stderr, with exit code
6. No token is needed, but a server that wants one keeps its reasons to itself.

Without --endpoint the server asked is the one of this machine that 'coordd serve'
would start with the same --config and environment: by the socket in its data directory, where it
has one that the caller may use, since its owner is told everything.`

// healthFlags are the flags of `coordd health`.
type healthFlags struct {
	connection connectionFlags
	timeout    time.Duration // of one question
	wait       time.Duration // 0: ask once
}

func (p *program) healthCommand() *cobra.Command {
	var f healthFlags
	command := &cobra.Command{
		Use:     "health",
		Short:   "Ask whether a server serves",
		Long:    healthText,
		Example: "  coordd health\n  coordd health --wait 30s",
		Args:    noArguments,
		RunE:    func(*cobra.Command, []string) error { return p.health(&f) },
	}
	flags := command.Flags()
	flags.SortFlags = false
	f.connection.onlyAsks = true
	f.connection.declareDataDir(flags)
	f.connection.declareServer(flags,
		"the socket, or where there is none, from COORDD_LISTEN, grpc://127.0.0.1:2136/local")
	flags.DurationVar(&f.timeout, "timeout", healthTimeout, "how long the server may take to answer")
	flags.DurationVar(&f.wait, "wait", 0,
		"ask again until the server serves, for this long at most (default: ask once)")
	return command
}

func (p *program) health(f *healthFlags) error {
	if f.timeout <= 0 {
		return usageError("flag --timeout: value %q is not allowed: want a time above zero, such as 3s",
			f.timeout)
	}
	if f.wait < 0 {
		return usageError("flag --wait: value %q is not allowed: want a time, such as 30s", f.wait)
	}
	about, err := f.untilServing(p)
	if err != nil {
		return err
	}
	line := "serving"
	if about != "" {
		line += ": " + about
	}
	_, err = fmt.Fprintln(p.stdout, line)
	return err
}

// untilServing asks until the server serves or the time is over. The result is what is wrong although it
// serves, or the error of the last question. A mistake in the flags is not asked twice.
func (f *healthFlags) untilServing(p *program) (about string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), f.wait)
	defer cancel()
	pause := time.NewTicker(healthPause)
	defer pause.Stop()
	for {
		about, err = f.ask(p)
		if err == nil || codeOf(err) != exitNotServing {
			return about, err
		}
		select {
		case <-pause.C:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			return "", err
		}
	}
}

// ask connects anew, so that no question waits for gRPC's pause after a failed connection.
func (f *healthFlags) ask(p *program) (about string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), f.timeout)
	defer cancel()
	client, err := f.connection.connect(ctx, &passwordReader{program: p})
	if codeOf(err) == exitNotServing {
		return "", withCode(exitNotServing, fmt.Errorf("not serving: %w", err))
	} else if err != nil {
		return "", err
	}
	defer client.close()
	about, err = client.serving(ctx)
	if err != nil {
		return "", withCode(exitNotServing, fmt.Errorf("not serving: %w", err))
	}
	return about, nil
}

// localEndpoint is the connection string of the server that the environment and the config file describe.
func localEndpoint(served *pflag.FlagSet, env environment) (string, error) {
	options := make([]option, 0, 2)
	for _, o := range serveOptions {
		if o.name == listenName || o.name == databaseName {
			options = append(options, o)
		}
	}
	s, _, err := resolveEach(options, served, env)
	if err != nil {
		return "", err
	}
	if s.listen == "" {
		return "", usageError("flag --endpoint: no value given, and the server listens with TLS only: give " +
			"grpcs://HOST:PORT")
	}
	host, port, err := net.SplitHostPort(s.listen)
	if err != nil {
		return "", err
	}
	if port == "0" {
		return "", usageError(
			"flag --endpoint: no value given, and the server's port is not known before it has started")
	}
	if address, err := netip.ParseAddr(host); host == "" || err == nil && address.IsUnspecified() {
		host = "127.0.0.1"
		if address.Is6() {
			host = "::1"
		}
	}
	return "grpc://" + net.JoinHostPort(host, port) + s.database, nil
}
