package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/coordd/coordd/internal/cmdline"
	"github.com/coordd/coordd/internal/exit"
	"github.com/coordd/coordd/internal/serve"
	"github.com/coordd/coordd/internal/tty"
	"github.com/coordd/coordd/raftstore"
	"github.com/coordd/coordd/raftstore/datadir"
	"github.com/coordd/coordd/server/adminpb"
)

func clusterSnapshotCommand(env *cmdline.Env) *cobra.Command {
	var to string
	command := askCommand(env, &question{use: "snapshot",
		short: "Back up everything into a file, while the servers keep running",
		about: clusterText, timeout: clusterLongTimeout, example: "  coordd cluster snapshot --to backup",
		check: func(*pflag.FlagSet, []string) error {
			if to == "" {
				return exit.Usagef("flag --to: no value given; want the file to write the backup to")
			}
			if _, err := os.Lstat(to); err == nil {
				return exit.With(exit.Config, fmt.Errorf("flag --to: %s exists already", to))
			}
			return nil
		},
		act: func(ctx context.Context, c *caller, _ []string) (string, error) {
			report, bytes, err := c.snapshotTo(ctx, to, progressOf(env))
			return fmt.Sprintf(
				"%s: %d bytes, everything up to entry %d of cluster %s, %d rows\nCheck it at any time with\n"+
					"  coordd cluster restore --from %s --check",
				to, bytes, report.Index, raftstore.IDText(report.Cluster), report.Rows, to), err
		}}, nil)
	command.Flags().StringVar(&to, "to", "", "file to write, which must not exist")
	return command
}

// partialSuffix is added to the name of a backup that is not complete.
const partialSuffix = ".partial"

// snapshotTo fetches a backup into a file that appears under its name once it is durable and was found sound.
func (c *caller) snapshotTo(ctx context.Context, path string, progress *tty.Progress) (
	report datadir.BackupReport, bytes int64, err error) {
	partial := path + partialSuffix
	file, err := os.OpenFile(partial, os.O_CREATE|os.O_RDWR|os.O_TRUNC, 0o600)
	if err != nil {
		return report, 0, serve.Coded(fmt.Errorf("flag --to: %w", err))
	}
	bytes, err = c.fetchSnapshot(ctx, file, progress)
	if err == nil {
		report, err = checkBackup(file, progress)
	}
	if err == nil {
		err = serve.Coded(file.Sync())
	}
	if closed := file.Close(); err == nil {
		err = serve.Coded(closed)
	}
	if err == nil {
		err = serve.Coded(os.Rename(partial, path))
	}
	if err == nil {
		return report, bytes, serve.Coded(syncDirectory(filepath.Dir(path)))
	}
	return report, bytes, errors.Join(err, os.Remove(partial))
}

// fetchSnapshot writes a backup to w and returns its length.
func (c *caller) fetchSnapshot(ctx context.Context, w io.Writer, progress *tty.Progress) (int64, error) {
	defer progress.End()
	conn, err := c.Conn()
	if err == nil {
		ctx, err = c.With(ctx, conn)
	}
	if err != nil {
		return 0, err
	}
	stream, err := adminpb.NewClusterClient(conn).Snapshot(ctx, &adminpb.SnapshotRequest{})
	if err != nil {
		return 0, c.clusterError(err)
	}
	var bytes int64
	for {
		chunk, err := stream.Recv()
		if err != nil {
			return bytes, c.clusterError(err)
		}
		n, err := w.Write(chunk.GetData())
		bytes += int64(n)
		progress.Show("fetching the backup", "bytes", uint64(bytes), 0) // only the server's end has the size
		if err != nil {
			return bytes, serve.Coded(err)
		}
		if chunk.GetIndex() != 0 {
			if uint64(bytes) != chunk.GetSize() {
				return bytes, fmt.Errorf("%d bytes came, the server has sent %d", bytes, chunk.GetSize())
			}
			return bytes, nil
		}
	}
}

// checkBackup reads a backup from its beginning to its end.
func checkBackup(file *os.File, progress *tty.Progress) (datadir.BackupReport, error) {
	info, err := file.Stat()
	if err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err != nil {
		return datadir.BackupReport{}, serve.Coded(err)
	}
	defer progress.End()
	report, err := datadir.VerifyBackup(progress.Reader(file, "checking the backup", info.Size()))
	if err != nil {
		return report, exit.With(exit.Damaged, err)
	}
	return report, nil
}

func syncDirectory(path string) error {
	directory, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(directory.Sync(), directory.Close())
}
