package main

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/coordd/coordd/internal/cmdline"
	"github.com/coordd/coordd/internal/exit"
	"github.com/coordd/coordd/internal/serve"
	"github.com/coordd/coordd/raftstore"
	"github.com/coordd/coordd/raftstore/datadir"
)

func clusterRestoreCommand(env *cmdline.Env) *cobra.Command {
	options := serve.OptionsNamed(serve.DataDirName)
	var from string
	var check bool
	command := &cobra.Command{
		Use:   "restore",
		Short: "Create the data directory of a new cluster from a backup",
		Long: "Create the data directory of the first server of a new cluster from a backup; the others\n" +
			"are added to it afterwards. The directory must be missing or empty, or left by a\n" +
			"restore that was cut short. Session ids and order ids go on with a jump, so that none\n" +
			"comes twice. docs/cluster.md has the procedure.\n\n" + serve.SourcesText,
		Example: "  coordd cluster restore --from backup --check\n" +
			"  coordd cluster restore --from backup --data-dir restored",
		Args: cmdline.NoArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			if from == "" {
				return exit.Usagef(
					"flag --from: no value given; want the file that `coordd cluster snapshot` has written")
			}
			if check {
				return checkBackupFile(env, from)
			}
			s, values, err := serve.Resolve(options, command.Flags(), env.Environ, env.UID)
			if err != nil {
				return err
			}
			if err := checkBackupFile(env, from); err != nil {
				return err
			}
			return serve.AboutDataDir(restoreBackup(env, from, s), s.DataDir, values)
		},
	}
	command.Flags().StringVar(&from, "from", "", "file with the backup")
	command.Flags().BoolVar(&check, "check", false, "only see whether the backup is sound")
	serve.AddFlags(command.Flags(), options)
	return command
}

func checkBackupFile(env *cmdline.Env, from string) error {
	file, err := os.Open(from)
	if err != nil {
		return serve.Coded(fmt.Errorf("flag --from: %w", err))
	}
	defer file.Close()
	report, err := checkBackup(file, progressOf(env))
	if err != nil {
		return fmt.Errorf("flag --from: %s: %w", from, err)
	}
	fmt.Fprintf(env.Stdout, "%s is sound: everything up to entry %d of cluster %s, %d rows\n",
		from, report.Index, raftstore.IDText(report.Cluster), report.Rows)
	return nil
}

func restoreBackup(env *cmdline.Env, from string, s serve.Settings) error {
	if err := serve.RefuseFile(string(s.DataDir)); err != nil {
		return serve.Coded(err)
	}
	file, err := os.Open(from)
	if err != nil {
		return serve.Coded(err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return serve.Coded(err)
	}
	progress := progressOf(env)
	err = datadir.RestoreBackup(string(s.DataDir), progress.Reader(file, "restoring", info.Size()))
	progress.End()
	if err := serve.Coded(err); err != nil {
		if exit.Of(err) == exit.Failure { // the directory is in the way
			err = exit.With(exit.Config, err)
		}
		return err
	}
	report, err := datadir.Check(string(s.DataDir))
	if err != nil {
		return serve.Coded(err)
	}
	fmt.Fprintf(env.Stdout, "%s holds cluster %s now, which is new. Next:\n"+
		"1. See that no server of the old cluster runs, and none starts again.\n"+
		"2. Start this one with its usual settings, without --initial-cluster and --join.\n"+
		"3. Add the others, if any, with `coordd cluster add`, and start them with empty data directories.\n",
		s.DataDir, raftstore.IDText(report.Cluster))
	return nil
}

func clusterRecoverCommand(env *cmdline.Env) *cobra.Command {
	options := serve.OptionsNamed(serve.DataDirName)
	var yes bool
	command := &cobra.Command{
		Use:   "recover",
		Short: "Continue with one server after the majority is lost for good",
		Long: "Make the server of a data directory the only one of its cluster, for when so many\n" +
			"others are lost for good that no majority is left. What only they had is lost. Take\n" +
			"the survivor for which 'coordd check' shows the highest last term, and among those the\n" +
			"highest last entry. No other server of the cluster may run, now or later. The server\n" +
			"must be stopped. docs/cluster.md has the procedure.\n\n" + serve.SourcesText,
		Example: "  coordd check --data-dir survivor && coordd cluster recover --data-dir survivor --yes",
		Args:    cmdline.NoArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			s, values, err := serve.Resolve(options, command.Flags(), env.Environ, env.UID)
			if err != nil {
				return err
			}
			return serve.AboutDataDir(recoverDirectory(env, string(s.DataDir), yes), s.DataDir, values)
		},
	}
	command.Flags().BoolVar(&yes, "yes", false, "do it; without this the command only says what it would do")
	serve.AddFlags(command.Flags(), options)
	return command
}

func recoverDirectory(env *cmdline.Env, directory string, yes bool) error {
	if err := serve.RefuseFile(directory); err != nil {
		return serve.Coded(err)
	}
	survivor, err := datadir.PlanForceSingle(directory)
	if err != nil {
		return serve.Coded(err)
	}
	if len(survivor.Others) == 0 {
		return exit.With(exit.Config, fmt.Errorf("%s is the only server of its cluster already: start it",
			cmp.Or(survivor.Name, "this")))
	}
	fmt.Fprintf(env.Stdout, "Server %s, %s, of cluster %s has everything up to entry %d of term %d.\n"+
		"What the others acknowledged after that is lost. These are removed for ever and must not run any more:\n%s",
		cmp.Or(survivor.Name, "-"), raftstore.IDText(survivor.Member), raftstore.IDText(survivor.Cluster),
		survivor.LastIndex, survivor.LastTerm, memberLines(survivor.Others))
	if len(survivor.Removed) > 0 {
		fmt.Fprintf(env.Stdout, "These were removed before, and must not run either:\n%s",
			memberLines(survivor.Removed))
	}
	if !yes {
		return exit.Usagef("nothing was changed; give --yes if this is the survivor with the most, and the others " +
			"are stopped for good")
	}
	if err := datadir.ForceSingle(directory); err != nil {
		return serve.Coded(err)
	}
	fmt.Fprint(env.Stdout, "Done. Start this server as before, then add others with `coordd cluster add`.\n")
	return nil
}

// memberLines lists members by name, one a line.
func memberLines(members raftstore.Members) string {
	var lines strings.Builder
	slices.SortFunc(members, func(a, b raftstore.Member) int { return cmp.Compare(a.Name, b.Name) })
	for _, m := range members {
		fmt.Fprintf(&lines, "  %s  %s  %s\n", cmp.Or(m.Name, "-"), raftstore.IDText(m.ID), m.PeerAddress)
	}
	return lines.String()
}
