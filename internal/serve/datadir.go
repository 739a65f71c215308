package serve

import (
	"fmt"
	"path/filepath"

	"github.com/coordd/coordd/internal/cmdline"
	"github.com/coordd/coordd/internal/exit"
)

const (
	// RootDataDir is the data directory of root.
	RootDataDir = "/var/lib/coordd"
	// GroupSocket is the administrator's socket of the server that a package has installed.
	GroupSocket        = "/run/coordd/admin.sock"
	dataDirDefaultText = "$XDG_STATE_HOME/coordd or ~/.local/state/coordd; for root " + RootDataDir
)

// defaultDataDir is the data directory without a setting: the place of
// the system for root, the user's state directory for anybody else. A relative
// XDG_STATE_HOME is ignored, as its specification asks.
func defaultDataDir(env cmdline.Environment, uid int) (string, error) {
	if uid == 0 {
		return RootDataDir, nil
	}
	if state := env.Value("XDG_STATE_HOME"); filepath.IsAbs(state) {
		return filepath.Join(state, "coordd"), nil
	}
	if home := env.Value("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".local", "state", "coordd"), nil
	}
	return "", fmt.Errorf("no data directory: neither XDG_STATE_HOME nor HOME holds an absolute path; give flag "+
		"--%s, variable %s or key %s in the config file", DataDirName, cmdline.Variable(DataDirName), DataDirName)
}

// settleDataDir gives the data directory its default, or empties it for a server
// in memory. Asking for both on one command line is a contradiction; a directory
// from a wider source (a container's environment, say) is simply not used.
func settleDataDir(s *Settings, values map[string]Given, env cmdline.Environment, uid int) error {
	directory, memory := values[DataDirName], values[InMemoryName]
	if s.InMemory {
		if directory.Code == exit.Usage && memory.Code == exit.Usage {
			return exit.Usagef(
				"flag --%s: value %q is not allowed together with --%s, which keeps nothing on disk",
				DataDirName, directory.Value, InMemoryName)
		}
		s.DataDir = ""
		return nil
	}
	if s.DataDir != "" {
		return nil
	}
	path, err := defaultDataDir(env, uid)
	if err != nil {
		return exit.With(exit.Config, err)
	}
	s.DataDir = Directory(path)
	return nil
}
