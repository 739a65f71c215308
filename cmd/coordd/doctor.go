package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/coordd/coordd/internal/cmdline"
	"github.com/coordd/coordd/internal/exit"
	"github.com/coordd/coordd/internal/serve"
	"github.com/coordd/coordd/raftstore/datadir"
	"github.com/coordd/coordd/server/adminpb"
)

const doctorText = `Look at what a server needs of its machine, with the settings that 'coordd serve' would
have with the same flags, environment and config file, and at the server and its cluster if
it runs. Nothing is changed; the time of a write is measured with a file that is removed
again. The exit code is 1 if something is found that keeps a server from working.`

// The results of a check.
const (
	foundWell    = "ok"
	foundWarning = "warning"
	foundFailure = "failure"
)

// finding is what a check has found.
type finding struct {
	Check  string `json:"check"`
	Result string `json:"result"`
	Text   string `json:"text"`
}

func found(check, result, format string, values ...any) finding {
	return finding{check, result, fmt.Sprintf(format, values...)}
}

func doctorCommand(env *cmdline.Env) *cobra.Command {
	out := new(outputFlag)
	command := &cobra.Command{
		Use:   "doctor",
		Short: "Examine the machine, the settings and the cluster of a server",
		Long: "Examine the machine, the settings and the cluster of a server.\n\n" + doctorText + "\n\n" +
			serve.SourcesText,
		Example: "  coordd doctor --data-dir data --listen 127.0.0.1:0 --listen-http off",
		Args:    cmdline.NoArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := out.check(); err != nil {
				return err
			}
			s, _, err := serve.Resolve(serve.Options, command.Flags(), env.Environ, env.UID)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(context.Background(), callerTimeout)
			defer cancel()
			return runDoctor(ctx, env, s, out)
		},
	}
	serve.AddFlags(command.Flags(), serve.Options)
	out.declareOutput(command)
	return command
}

func runDoctor(ctx context.Context, env *cmdline.Env, s serve.Settings, out *outputFlag) error {
	running, cluster := examineServer(ctx, env, s)
	findings := slices.Concat(examineDirectory(s), examineListeners(s, running), examineDescriptors(s),
		examineSecrets(s), examineCertificates(s, time.Now()), []finding{examineClock()}, cluster)
	list := out.list(env.Stdout, "CHECK", "RESULT", "FOUND")
	failures := 0
	for _, f := range findings {
		if f.Result == foundFailure {
			failures++
		}
		if err := list.add(f, f.Check, f.Result, f.Text); err != nil {
			return err
		}
	}
	if err := list.end(); err != nil {
		return err
	}
	if failures > 0 {
		return fmt.Errorf("%s found", counted(failures, "failure"))
	}
	return nil
}

const (
	// slowAppend is the median time of appends from which on doctor warns, and slowestAppend that of a single one: a
	// leader that waits longer hands over.
	slowAppend    = 10 * time.Millisecond
	slowestAppend = 500 * time.Millisecond
	// appends is the number of appends that are measured.
	appends     = 50
	appendBytes = 4 << 10
)

func examineDirectory(s serve.Settings) []finding {
	if s.DataDir == "" {
		return []finding{found("data directory", foundWarning,
			"none: everything is gone when the server ends (--in-memory)")}
	}
	place := string(s.DataDir)
	info, err := os.Stat(place)
	for errors.Is(err, os.ErrNotExist) && place != filepath.Dir(place) { // the server makes it
		place = filepath.Dir(place)
		info, err = os.Stat(place)
	}
	switch {
	case err != nil:
		return []finding{found("data directory", foundFailure, "%v", err)}
	case !info.IsDir():
		return []finding{found("data directory", foundFailure, "%s is not a directory", place)}
	}
	findings := []finding{found("data directory", foundWell, "%s", s.DataDir)}
	if place != string(s.DataDir) {
		findings[0].Text += ", which is not there yet and will be made"
	} else if count, first := serve.OpenToOthers(place); count > 0 {
		findings = append(findings, found("permissions", foundWarning,
			"%s in the data directory are open to others than their owner, %s first", counted(count, "file"),
			first))
	}
	if free, err := datadir.FreeBytes(place); err == nil {
		result := foundWell
		if free < uint64(s.Reserve) {
			result = foundFailure
		} else if free < 4*uint64(s.Reserve) {
			result = foundWarning
		}
		findings = append(findings, found("free space", result, "%d MiB, of which %d are the reserve",
			free>>20, s.Reserve>>20))
	}
	return append(findings, examineAppends(place))
}

// examineAppends measures how long an append to the log takes, which every request that changes something waits for:
// a write into blocks that the file has, and a sync. Either may stop, so the slowest append is shown by its parts.
func examineAppends(place string) finding {
	const check = "appends to the log"
	file, err := os.CreateTemp(place, ".doctor-")
	if err != nil {
		return found(check, foundFailure, "cannot write there: %v", err)
	}
	defer os.Remove(file.Name())
	defer file.Close()
	type appended struct{ took, writing time.Duration }
	var all []appended
	for range appends {
		begun := time.Now()
		if _, err := file.WriteAt(make([]byte, appendBytes), 0); err != nil {
			return found(check, foundFailure, "%v", err)
		}
		writing := time.Since(begun)
		if err := file.Sync(); err != nil {
			return found(check, foundFailure, "%v", err)
		}
		all = append(all, appended{time.Since(begun), writing})
	}
	slices.SortFunc(all, func(a, b appended) int { return cmp.Compare(a.took, b.took) })
	median, most := all[appends/2], all[appends-1]
	text := fmt.Sprintf("one takes %v, the slowest %v (write %v, fsync %v)", median.took, most.took, most.writing,
		most.took-most.writing)
	if median.took > slowAppend || most.took > slowestAppend {
		return found(check, foundWarning, "%s: every change waits that long", text)
	}
	return found(check, foundWell, "%s", text)
}

func examineListeners(s serve.Settings, running bool) (findings []finding) {
	serve.Each(s, func(name string, address serve.Listener) {
		result, text := foundWell, string(address)+" is free"
		listener, err := net.Listen("tcp", string(address))
		switch {
		case err == nil:
			_ = listener.Close()
		case running && errors.Is(err, syscall.EADDRINUSE):
			text = string(address) + " is taken, and the server runs"
		default:
			result, text = foundFailure, err.Error()
		}
		findings = append(findings, found("--"+name, result, "%s", text))
	})
	return findings
}

func examineDescriptors(s serve.Settings) []finding {
	descriptors := serve.RaiseDescriptors()
	if want := s.Streams; want > 0 && descriptors < want {
		return []finding{found("descriptors", foundWarning,
			"%d files and connections may be open, fewer than %d streams: raise RLIMIT_NOFILE (ulimit -n, "+
				"LimitNOFILE=) if clients have a connection each", descriptors, want)}
	}
	return []finding{found("descriptors", foundWell, "%d files and connections may be open", descriptors)}
}

func examineSecrets(s serve.Settings) (findings []finding) {
	serve.EachSecret(s, func(name, path string) {
		result, text := foundWell, path+" is for its owner alone"
		if info, err := os.Stat(path); err != nil {
			result, text = foundFailure, err.Error()
		} else if excess := serve.Excess(info); excess != 0 {
			result, text = foundWarning, fmt.Sprintf("%s is open to others than its owner: %s, want %s", path,
				serve.ModeText(info.Mode()), serve.ModeText(info.Mode()&^excess))
		}
		findings = append(findings, found("--"+name, result, "%s", text))
	})
	return findings
}

// expirySoon is how long before its end a certificate is told of.
const expirySoon = 30 * 24 * time.Hour

func examineCertificates(s serve.Settings, now time.Time) (findings []finding) {
	serve.EachCertificate(s, func(name, path string) {
		end, err := serve.CertificateEnd(path)
		result, text := foundWell, "is good until"
		switch left := end.Sub(now); {
		case err != nil:
			findings = append(findings, found("--"+name, foundFailure, "%v", err))
			return
		case left <= 0:
			result, text = foundFailure, "has expired on"
		case left < expirySoon:
			result, text = foundWarning, "expires on"
		}
		findings = append(findings, found("--"+name, result, "%s %s %s", path, text, end.UTC().Format(time.DateOnly)))
	})
	return findings
}

// examineServer asks the server that uses the data directory, if one does, and its cluster.
func examineServer(ctx context.Context, env *cmdline.Env, s serve.Settings) (running bool, findings []finding) {
	f := callerFlags{connectionFlags: connectionFlags{dataDir: string(s.DataDir)}}
	if s.DataDir == "" {
		return false, nil
	}
	c, err := f.open(ctx, env)
	if err != nil {
		return false, []finding{found("server", foundWell, "none runs on the data directory")}
	}
	defer c.Close()
	serves, issues, err := c.serving(ctx)
	switch {
	case exit.Of(err) == exit.NotServing:
		return false, []finding{found("server", foundWell, "none runs on the data directory")}
	case err != nil:
		return true, []finding{found("server", foundFailure, "it does not serve: %v", err)}
	case !serves:
		return true, []finding{found("server", foundFailure, "it does not serve: %s", strings.Join(issues, "; "))}
	case len(issues) > 0:
		findings = append(findings, found("server", foundWarning, "it serves, but: %s", strings.Join(issues, "; ")))
	default:
		findings = append(findings, found("server", foundWell, "it serves"))
	}
	now, err := c.clusterStatus(ctx)
	if err != nil {
		return true, append(findings, found("cluster", foundFailure, "%v", err))
	}
	return true, append(findings, examineCluster(now)...)
}

func examineCluster(now *adminpb.ClusterStatus) (findings []finding) {
	if now.GetDiverged() != "" {
		findings = append(findings, found("cluster", foundFailure, "%s", now.GetDiverged()))
	}
	if now.GetLeader() == "" {
		findings = append(findings, found("cluster", foundFailure, "no server leads"))
	}
	newest := uint64(0)
	for _, m := range now.GetMembers() {
		newest = max(newest, m.GetVersion())
	}
	var away, older []string
	for _, m := range now.GetMembers() {
		if !m.GetConnected() {
			away = append(away, m.GetName())
		} else if m.GetVersion() < newest {
			older = append(older, m.GetName())
		}
	}
	if len(away) > 0 {
		findings = append(findings, found("members", foundWarning, "this server is not connected to %s",
			strings.Join(away, ", ")))
	}
	if len(older) > 0 {
		findings = append(findings, found("versions", foundWarning,
			"%s run an older version: what it cannot read is not written", strings.Join(older, ", ")))
	}
	if len(findings) == 0 {
		findings = append(findings, found("cluster", foundWell, "%s, all connected and of one version",
			counted(len(now.GetMembers()), "server")))
	}
	return findings
}
