package serve

import (
	"cmp"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/coordd/coordd/internal/cmdline"
	"github.com/coordd/coordd/internal/devcert"
	"github.com/coordd/coordd/internal/exit"
)

// localYDBName is the option that makes the image a stand-in for YDB's local-ydb: its users change only the name of the
// image. Its variables rank below everything that is ours.
const localYDBName = "local-ydb"

// The defaults of the local-ydb image: its documentation publishes these ports.
const (
	localYDBPort         = "2136"
	localYDBPortTLS      = "2135"
	localYDBPortHTTP     = "8765"
	localYDBCertificates = "/ydb_certs"
)

// localYDBLevels are the values of YDB_DEFAULT_LOG_LEVEL and what they are here.
var localYDBLevels = map[string]string{
	"EMERG": "error", "ALERT": "error", "CRIT": "error", "ERROR": "error", "WARN": "warn",
	"NOTICE": "info", "INFO": "info", "DEBUG": "debug", "TRACE": "debug",
}

// localYDBValues are the values that the variables of local-ydb stand for, by the names of our options; none
// if the option is not set. file holds the values of the config file.
func localYDBValues(flags *pflag.FlagSet, env cmdline.Environment, file map[string]Given) map[string]Given {
	asked, found := lookUp(localYDBName, flags, env)
	if !found {
		asked, found = file[localYDBName]
	}
	wanted := false
	if err := setBool(&wanted, asked.Value); !found || err != nil || !wanted {
		return nil // ResolveEach refuses a value that is not allowed
	}
	port, portTLS := localYDBGiven(env, "GRPC_PORT", localYDBPort),
		localYDBGiven(env, "GRPC_TLS_PORT", localYDBPortTLS)
	monitoring := localYDBGiven(env, "MON_PORT", localYDBPortHTTP)
	directory := localYDBGiven(env, "YDB_GRPC_TLS_DATA_PATH", localYDBCertificates)
	level := localYDBGiven(env, "YDB_DEFAULT_LOG_LEVEL", "INFO")
	memory := localYDBGiven(env, "YDB_USE_IN_MEMORY_PDISKS", "false")
	values := map[string]Given{
		ListenName:     port.as(":" + port.Value),
		ListenHTTPName: monitoring.as(":" + monitoring.Value),
		InMemoryName:   memory.as(strconv.FormatBool(saysYes(memory.Value))),
		// one that is not known is no reason not to start
		"log-level": level.as(cmp.Or(localYDBLevels[strings.ToUpper(level.Value)], "info")),
	}
	if saysYes(localYDBGiven(env, "YDB_GRPC_ENABLE_TLS", "1").Value) {
		values["listen-tls"] = portTLS.as(":" + portTLS.Value)
		values["tls-cert"] = directory.as(filepath.Join(directory.Value, "cert.pem"))
		values["tls-key"] = directory.as(filepath.Join(directory.Value, "key.pem"))
	}
	return values
}

// localYDBGiven is the value of one of local-ydb's variables, or what that image does without it.
func localYDBGiven(env cmdline.Environment, name, fallback string) Given {
	if value := env.Value(name); value != "" {
		return Given{Value: value, Origin: "variable " + name, Code: exit.Config, localYDB: true}
	}
	return Given{Value: fallback, Origin: "default of local-ydb", Code: exit.Config, localYDB: true}
}

// as is the value in the form of our option.
func (g Given) as(value string) Given {
	g.Value = value
	return g
}

// saysYes reads a switch of local-ydb, which are written in several ways.
func saysYes(value string) bool {
	return slices.Contains([]string{"1", "true", "yes", "y", "on"}, strings.ToLower(value))
}

// settleLocalYDB sees to the certificates in local-ydb's directory: those that somebody has put there are
// used as they are, and others are made, by the authority that is there from an earlier start. A directory
// that cannot be written to costs the TLS listener and not the server: most clients of a stand-in do without
// TLS.
func (s *Settings) settleLocalYDB(values map[string]Given, logger *slog.Logger) {
	if s.TLS.Listen == "" || !values["tls-cert"].localYDB || !values["tls-key"].localYDB {
		return
	}
	directory := filepath.Dir(string(s.TLS.Certificate))
	certificate, key := string(s.TLS.Certificate), string(s.TLS.Key)
	if exists(certificate) && exists(key) && !exists(filepath.Join(directory, "ca-key.pem")) {
		return
	}
	if err := devcert.Make(directory, devcert.Wanted{}); err != nil {
		logger.Warn("no TLS: certificates can neither be found nor made; mount a directory that this user may write to",
			"directory", directory, "error", err)
		s.TLS.Listen, s.TLS.Advertise, s.TLS.Certificate, s.TLS.Key = "", "", "", ""
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
