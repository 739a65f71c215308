package main

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
)

// localYDBName is the option that makes the image a stand-in for YDB's local-ydb: whoever starts that one
// changes the name of the image and nothing else. Its variables rank below everything that is ours.
const localYDBName = "local-ydb"

var localYDBOption = option{localYDBName, "bool",
	"take ports, certificates and storage from the variables of the local-ydb image where nothing else names them",
	"false", setLocalYDB}

var setLocalYDB = setBool(func(s *settings) *bool { return &s.localYDB })

// What the local-ydb image does without variables: the ports are those that its documentation tells people to
// publish.
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
func localYDBValues(flags *pflag.FlagSet, env environment, file map[string]given) map[string]given {
	asked, found := lookUp(localYDBName, flags, env)
	if !found {
		asked, found = file[localYDBName]
	}
	var s settings
	if !found {
		return nil
	}
	if err := setLocalYDB(&s, asked.value); err != nil || !s.localYDB {
		return nil // resolveEach refuses the value
	}
	port, portTLS := localYDBGiven(env, "GRPC_PORT", localYDBPort),
		localYDBGiven(env, "GRPC_TLS_PORT", localYDBPortTLS)
	monitoring := localYDBGiven(env, "MON_PORT", localYDBPortHTTP)
	directory := localYDBGiven(env, "YDB_GRPC_TLS_DATA_PATH", localYDBCertificates)
	level := localYDBGiven(env, "YDB_DEFAULT_LOG_LEVEL", "INFO")
	memory := localYDBGiven(env, "YDB_USE_IN_MEMORY_PDISKS", "false")
	values := map[string]given{
		listenName:     port.as(":" + port.value),
		listenHTTPName: monitoring.as(":" + monitoring.value),
		inMemoryName:   memory.as(strconv.FormatBool(saysYes(memory.value))),
		// one that is not known is no reason not to start
		"log-level": level.as(cmp.Or(localYDBLevels[strings.ToUpper(level.value)], "info")),
	}
	if saysYes(localYDBGiven(env, "YDB_GRPC_ENABLE_TLS", "1").value) {
		values["listen-tls"] = portTLS.as(":" + portTLS.value)
		values["tls-cert"] = directory.as(filepath.Join(directory.value, "cert.pem"))
		values["tls-key"] = directory.as(filepath.Join(directory.value, "key.pem"))
	}
	return values
}

// localYDBGiven is the value of one of local-ydb's variables, or what that image does without it.
func localYDBGiven(env environment, name, fallback string) given {
	if value := env.value(name); value != "" {
		return given{value: value, origin: "variable " + name, code: exitConfig, localYDB: true}
	}
	return given{value: fallback, origin: "default of local-ydb", code: exitConfig, localYDB: true}
}

// as is the value in the form of our option.
func (g given) as(value string) given {
	g.value = value
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
func (s *settings) settleLocalYDB(values map[string]given, logger *slog.Logger) {
	if s.tls.listen == "" || !values["tls-cert"].localYDB || !values["tls-key"].localYDB {
		return
	}
	directory := filepath.Dir(s.tls.certificate)
	if exists(s.tls.certificate) && exists(s.tls.key) && !exists(filepath.Join(directory, "ca-key.pem")) {
		return
	}
	if err := makeCertificates(directory, wanted{}); err != nil {
		logger.Warn("no TLS: certificates can neither be found nor made; mount a directory that this user may write to",
			"directory", directory, "error", err)
		s.tls.listen, s.tls.advertise, s.tls.certificate, s.tls.key = "", "", "", ""
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
