package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/coordd/coordd/internal/cmdline"
	"github.com/coordd/coordd/internal/serve"
	"github.com/coordd/coordd/internal/tty"
	"github.com/coordd/coordd/raftstore"
	"github.com/coordd/coordd/raftstore/datadir"
)

// checkFunc examines a data directory that no server uses and returns what it
// found, also where it found damage, which is an error too, and nil if it
// examined nothing. It changes nothing. Errors carry their exit code.
type checkFunc func(directory string, progress *tty.Progress) (*datadir.Report, error)

func checkCommand(env *cmdline.Env, check checkFunc) *cobra.Command {
	options := serve.OptionsNamed(serve.DataDirName)
	out := new(outputFlag)
	command := &cobra.Command{
		Use:   "check",
		Short: "Examine the data directory of a server that is not running",
		Long: "Read everything in a data directory, report what is there and the first damage\n" +
			"found, and change nothing. No server may be running on it.\n\n" + serve.SourcesText,
		Example: "  coordd check --data-dir data\n  coordd check --data-dir data -o json",
		Args:    cmdline.NoArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := out.check(); err != nil {
				return err
			}
			s, values, err := serve.Resolve(options, command.Flags(), env.Environ, env.UID)
			if err != nil {
				return err
			}
			progress := progressOf(env)
			report, err := check(string(s.DataDir), progress)
			progress.End()
			if report != nil {
				shown := showReport(report, err)
				err = errors.Join(out.one(env.Stdout, shown, shown.text), err)
			}
			return serve.AboutDataDir(err, s.DataDir, values)
		},
	}
	serve.AddFlags(command.Flags(), options)
	out.declareOutput(command)
	return command
}

// reportShown is the report on a data directory, as the output has it. Ids are 16 hexadecimal digits.
type reportShown struct {
	Cluster         string          `json:"cluster"`
	ServerID        string          `json:"server_id"`
	CheckpointIndex uint64          `json:"checkpoint_index"`
	CheckpointRows  uint64          `json:"checkpoint_rows"`
	FirstIndex      uint64          `json:"first_index"` // above last_index if the log has no entries
	LastIndex       uint64          `json:"last_index"`
	LastTerm        uint64          `json:"last_term"`
	Members         []checkedMember `json:"members"`
	Removed         []checkedMember `json:"removed"`
	Files           []checkedFile   `json:"files"`
	Condemned       string          `json:"condemned,omitempty"`
	Damage          string          `json:"damage,omitempty"`

	report *datadir.Report
}

type checkedMember struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	PeerAddress string `json:"peer_address"`
	Role        string `json:"role"` // voter or learner
}

type checkedFile struct {
	Name       string `json:"name"`
	Bytes      int64  `json:"bytes"`
	FirstIndex uint64 `json:"first_index"` // 0 if the file has no entries
	LastIndex  uint64 `json:"last_index"`
	Rows       uint64 `json:"rows"`
	TornBytes  int64  `json:"torn_bytes"`
}

// showReport makes a report of what was examined until err ended the examination.
func showReport(r *datadir.Report, err error) *reportShown {
	shown := &reportShown{
		Cluster:         raftstore.IDText(r.Cluster),
		ServerID:        raftstore.IDText(r.Member),
		CheckpointIndex: r.CheckpointIndex,
		CheckpointRows:  r.Rows,
		FirstIndex:      r.FirstIndex,
		LastIndex:       r.LastIndex,
		LastTerm:        r.LastTerm,
		Members:         showMembers(r.Members),
		Removed:         showMembers(r.Removed),
		Files:           []checkedFile{},
		Condemned:       r.Condemned,
		report:          r,
	}
	for _, f := range r.Files {
		shown.Files = append(shown.Files,
			checkedFile{f.Name, f.Bytes, f.FirstIndex, f.LastIndex, f.Rows, f.TornBytes})
	}
	if err != nil && r.Condemned == "" {
		shown.Damage = err.Error()
	}
	return shown
}

func showMembers(members raftstore.Members) []checkedMember {
	shown := []checkedMember{}
	for _, m := range members {
		role := "voter"
		if m.Learner {
			role = "learner"
		}
		shown = append(shown, checkedMember{raftstore.IDText(m.ID), m.Name, m.PeerAddress, role})
	}
	return shown
}

func (s *reportShown) text(w io.Writer) { fmt.Fprint(w, s.report.String()) }

// checkDirectory examines a data directory with the real storage.
func checkDirectory(directory string, progress *tty.Progress) (*datadir.Report, error) {
	if err := serve.RefuseFile(directory); err != nil {
		return nil, serve.Coded(err)
	}
	report, err := (&datadir.Disk{Progress: progress.Show}).Check(directory)
	var corruption *datadir.CorruptionError
	if err != nil && !errors.As(err, &corruption) {
		return nil, serve.Coded(err) // nothing was examined
	}
	if err == nil && report.Condemned != "" {
		err = &datadir.CondemnedError{File: directory, Reason: report.Condemned}
	}
	return &report, serve.Coded(err)
}
