package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/coordd/coordd/internal/exit"
	"github.com/coordd/coordd/internal/serve"
	"github.com/coordd/coordd/raftstore"
	"github.com/coordd/coordd/server/adminpb"
)

func (p *program) clusterSnapshotCommand() *cobra.Command {
	command, f := p.clusterSubcommand("snapshot", "Back up everything into a file, while the servers go on",
		clusterLongTimeout,
		func(ctx context.Context, f *clusterFlags, client *adminClient, _ []string) error {
			report, bytes, err := client.snapshotTo(ctx, f.to)
			if err != nil {
				return err
			}
			fmt.Fprintf(p.stdout,
				"%s: %d bytes, everything up to entry %d of cluster %s, %d rows\nCheck it at any time with\n"+
					"  coordd cluster restore --from %s --check\n",
				f.to, bytes, report.Index, raftstore.IDText(report.Cluster), report.Rows, f.to)
			return nil
		})
	command.Flags().StringVar(&f.to, "to", "", "file to write, which must not exist")
	command.PreRunE = func(*cobra.Command, []string) error {
		if f.to == "" {
			return exit.Usagef("flag --to: no value given; want the file to write the backup to")
		}
		if _, err := os.Lstat(f.to); err == nil {
			return exit.With(exit.Config, fmt.Errorf("flag --to: %s exists already", f.to))
		}
		return nil
	}
	return command
}

// partialSuffix is added to the name of a backup that is not complete.
const partialSuffix = ".partial"

// snapshotTo fetches a backup into a file that appears under its name once it is durable and was found sound.
func (c *adminClient) snapshotTo(
	ctx context.Context,
	path string,
) (report raftstore.BackupReport, bytes int64, err error) {
	partial := path + partialSuffix
	file, err := os.OpenFile(partial, os.O_CREATE|os.O_RDWR|os.O_TRUNC, 0o600)
	if err != nil {
		return report, 0, serve.Coded(fmt.Errorf("flag --to: %w", err))
	}
	bytes, err = c.fetchSnapshot(ctx, file)
	if err == nil {
		report, err = checkBackup(file)
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
func (c *adminClient) fetchSnapshot(ctx context.Context, w io.Writer) (int64, error) {
	stream, err := adminpb.NewClusterClient(c.conn).Snapshot(c.headers(ctx), &adminpb.SnapshotRequest{})
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
func checkBackup(file io.ReadSeeker) (raftstore.BackupReport, error) {
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return raftstore.BackupReport{}, serve.Coded(err)
	}
	report, err := raftstore.VerifyBackup(file)
	if err != nil {
		return report, exit.With(exit.Storage, err)
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
