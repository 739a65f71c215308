package main

import (
	"strings"
	"testing"

	"github.com/coordd/coordd/internal/exit"
	"github.com/coordd/coordd/internal/serve"
)

// TestRefusals is the table of mistakes: what the message has to say, in order,
// and the exit code. FILE in it stands for a config file with the given content.
func TestRefusals(t *testing.T) {
	home := []string{"HOME=/home/u"}
	tests := []struct {
		name        string
		args        string
		environment []string
		file        string
		code        exit.Code
		want        []string
	}{
		{"no command", "", nil, "", exit.Usage,
			[]string{"no command given",
				"bench, cert, check, chown, cluster, completion, config, console, discover, doctor, " +
					"elect, events, export, grant, health, help, import, licenses, lock, ls, mkdir, node, " +
					"ratelimiter, revoke, rmdir, semaphore, serve, session, slow, top, user, version"}},
		{"unknown command", "bogus", nil, "", exit.Usage,
			[]string{`unknown command "bogus"`,
				"bench, cert, check, chown, cluster, completion, config, console, discover, doctor, " +
					"elect, events, export, grant, health, help, import, licenses, lock, ls, mkdir, node, " +
					"ratelimiter, revoke, rmdir, semaphore, serve, session, slow, top, user, version"}},
		{"slip in a command", "srve", nil, "", exit.Usage,
			[]string{`unknown command "srve"`, "did you mean serve?"}},
		{"slip in a command, with its flags", "srve --listen :1", nil, "", exit.Usage,
			[]string{`unknown command "srve"`, "did you mean serve?"}},
		{"help for an unknown command", "help chekc", nil, "", exit.Usage,
			[]string{`unknown command "chekc"`, "did you mean check?"}},
		{"help for too much", "help serve more", nil, "", exit.Usage, []string{`unknown command "more"`}},
		{"argument of serve", "serve here", home, "", exit.Usage,
			[]string{`argument "here"`, "coordd serve takes only flags"}},
		{"argument of check", "check here", home, "", exit.Usage,
			[]string{`argument "here"`, "coordd check takes only flags"}},
		{"no command of user", "user", nil, "", exit.Usage,
			[]string{"no command given", "add, list, passwd, remove, rotate-key"}},
		{"slip in a command of user", "user lsit", nil, "", exit.Usage,
			[]string{`unknown command "lsit"`, "did you mean list?"}},
		{"user without a name", "user add", nil, "", exit.Usage,
			[]string{"coordd user add takes NAME, 0 arguments given"}},
		{"user with two names", "user remove a b", nil, "", exit.Usage,
			[]string{"coordd user remove takes NAME, 2 arguments given"}},
		{"argument of user list", "user list a", nil, "", exit.Usage,
			[]string{`argument "a"`, "coordd user list takes only flags"}},
		{"endpoint with two databases", "user list --endpoint grpc://h:1/local?database=/local", nil, "",
			exit.Usage, []string{"flag --endpoint", "two databases"}},
		{"endpoint with more behind it", "user list --endpoint grpc://h:1/?ssl=1", nil, "", exit.Usage,
			[]string{"flag --endpoint", "database=PATH"}},
		{"endpoint and another database", "user list -e grpc://h:1/local -d /prod", nil, "", exit.Usage,
			[]string{"flag --database", `"/prod"`, "flag --endpoint names /local"}},
		{"endpoint of a variable", "user list", []string{"COORDD_ENDPOINT=h"}, "", exit.Config,
			[]string{"variable COORDD_ENDPOINT", `"h"`, "HOST:PORT"}},
		{"endpoint without a port", "user list --endpoint grpc://h/local", nil, "", exit.Usage,
			[]string{"flag --endpoint", "HOST:PORT"}},
		{"endpoint with a password", "user list --endpoint grpc://a:b@h:1/local", nil, "", exit.Usage,
			[]string{"flag --endpoint"}},
		{"authorities without TLS", "user list --ca-file x --endpoint grpc://h:1", nil, "", exit.Usage,
			[]string{"flag --ca-file", "grpcs://"}},
		{"password without a user", "user list --password-file x", nil, "", exit.Usage,
			[]string{"flag --password-file", "--user"}},
		{"no command of cluster", "cluster", nil, "", exit.Usage, []string{"no command given",
			"add, limits, promote, recover, remove, restore, snapshot, status, transfer-leader"}},
		{"slip in a command of cluster", "cluster statsu", nil, "", exit.Usage,
			[]string{`unknown command "statsu"`, "did you mean status?"}},
		{"member without an address", "cluster add d", nil, "", exit.Usage,
			[]string{"coordd cluster add takes NAME PEER-HOST:PORT, 1 argument given"}},
		{"member with a bad name", "cluster add d,e h:1", nil, "", exit.Usage,
			[]string{"argument NAME", `"d,e"`, "printable"}},
		{"member with a bad address", "cluster add d h", nil, "", exit.Usage,
			[]string{"argument PEER-HOST:PORT", `"h"`, "HOST:PORT"}},
		{"promote nobody", "cluster promote", nil, "", exit.Usage,
			[]string{"coordd cluster promote takes NAME, 0 arguments given"}},
		{"two to lead", "cluster transfer-leader a b", nil, "", exit.Usage,
			[]string{"takes [NAME], 2 arguments given"}},
		{"argument of cluster status", "cluster status a", nil, "", exit.Usage,
			[]string{`argument "a"`, "coordd cluster status takes only flags"}},
		{"no time", "cluster status --timeout 0s", nil, "", exit.Usage,
			[]string{"flag --timeout", `"0s"`, "10m"}},
		{"snapshot to nowhere", "cluster snapshot", nil, "", exit.Usage,
			[]string{"flag --to", "no value given"}},
		{"snapshot over a file", "cluster snapshot --to /dev/null", nil, "", exit.Config,
			[]string{"flag --to", "/dev/null exists already"}},
		{"restore from nothing", "cluster restore --data-dir /nowhere/d", nil, "", exit.Usage,
			[]string{"flag --from", "no value given"}},
		{"restore from a file that is not there", "cluster restore --data-dir /nowhere/d --from /nowhere/b", nil, "",
			exit.Config, []string{"/nowhere/b"}},
		{"restore what is no backup", "cluster restore --data-dir /nowhere/d --from /dev/null", nil, "", exit.Damaged,
			[]string{"flag --from: /dev/null", "not a coordd backup"}},
		{"recover nothing", "cluster recover --data-dir /nowhere/d", nil, "", exit.Config,
			[]string{"/nowhere/d"}},
		{"recover a running place", "cluster recover here", home, "", exit.Usage,
			[]string{`argument "here"`, "coordd cluster recover takes only flags"}},

		{"health of a server without an address", "health --endpoint grpc://h/local", nil, "", exit.Usage,
			[]string{"flag --endpoint", "HOST:PORT"}},
		{"health in no time", "health --timeout 0s", nil, "", exit.Usage,
			[]string{"flag --timeout", "above zero"}},
		{"health of the future", "health --wait -1s", nil, "", exit.Usage,
			[]string{"flag --wait", "want a time"}},
		{"health of a port yet to be chosen", "health", []string{"COORDD_LISTEN=:0"}, "", exit.Usage,
			[]string{"flag --endpoint", "not known"}},
		{"certificates without a place", "cert", nil, "", exit.Usage, []string{"flag --dir", "directory"}},
		{"client that is a path", "cert --dir /nowhere --client a/b", nil, "", exit.Usage,
			[]string{"flag --client", `"a/b"`}},
		{"argument of cert", "cert here", nil, "", exit.Usage,
			[]string{`argument "here"`, "coordd cert takes only flags"}},
		{"argument of version", "version 1", nil, "", exit.Usage,
			[]string{`argument "1"`, "coordd version takes only flags"}},

		{"endpoint of another kind", "ls --endpoint http://h:1/local", nil, "", exit.Usage,
			[]string{"flag --endpoint", "grpc://HOST:PORT/DATABASE"}},
		{"no token file", "ls --endpoint grpc://h:1/local --token-file /nowhere/t", nil, "", exit.Config,
			[]string{"flag --token-file", "/nowhere/t"}},
		{"tab in the file", "serve --config FILE", home, "listen: :1\n\tadvertise: a\n", exit.Config,
			[]string{"FILE", "line 2", "tab", "spaces"}},
		{"no slip", "put", nil, "", exit.Usage, []string{`unknown command "put"; known are`}},
		{"a command of a group", "get", nil, "", exit.Usage,
			[]string{`unknown command "get"; did you mean 'coordd config get'?`}},
		{"members of one address", "serve --initial-cluster a=h:1,b=h:1", home, "", exit.Usage,
			[]string{"flag --initial-cluster", `"a" and "b"`, "same address", "h:1"}},
		{"slip in a flag", "serve --listne :1", home, "", exit.Usage,
			[]string{"unknown flag --listne", "did you mean --listen?"}},
		{"unknown flag", "serve --colour red", home, "", exit.Usage,
			[]string{"unknown flag --colour", "--listen, --advertise, --data-dir"}},
		{"unknown flag of the program", "--colour", nil, "", exit.Usage,
			[]string{"unknown flag --colour", "--help, --version"}},
		{"unknown short flag", "serve -x", home, "", exit.Usage, []string{"'x'", "-x"}},
		{"flag without value", "serve --listen", home, "", exit.Usage,
			[]string{"flag --listen: no value given", "HOST:PORT"}},
		{"flag of serve given to check", "check --listen :1", home, "", exit.Usage,
			[]string{"unknown flag --listen", "coordd check knows --data-dir"}},

		{"value of a flag", "serve --log-level loud", home, "", exit.Usage,
			[]string{"flag --log-level", `value "loud"`, "debug, info, warn or error"}},
		{"empty value of a flag", "serve --database=", home, "", exit.Usage,
			[]string{"flag --database", `value ""`, "absolute path"}},
		{"both places of storage", "serve --in-memory --data-dir /d", home, "", exit.Usage,
			[]string{"flag --data-dir", `value "/d"`, "--in-memory"}},
		{"empty config flag", "serve --config=", home, "", exit.Usage,
			[]string{"flag --config", `value ""`, "YAML"}},
		{"value of a variable", "serve", append(home, "COORDD_LISTEN=2136"), "", exit.Config,
			[]string{"variable COORDD_LISTEN", `value "2136"`, "HOST:PORT"}},
		{"value in the file", "serve --config FILE", home, "# first\nadvertise: grpc://a\n", exit.Config,
			[]string{"config file FILE, line 2, key advertise", `value "grpc://a"`, "HOST:PORT without a scheme",
				"grpcs://HOST:PORT of a proxy"}},
		{"proxy without a port", "serve --advertise grpcs://a", home, "", exit.Usage,
			[]string{"flag --advertise", `value "grpcs://a"`, "grpcs://HOST:PORT"}},
		{"proxy with a database", "serve --advertise grpcs://a:1/local", home, "", exit.Usage,
			[]string{"flag --advertise", `value "grpcs://a:1/local"`, "port from 1 to 65535"}},
		{"proxy in the wrong place", "serve --advertise-tls grpcs://a:1", home, "", exit.Usage,
			[]string{"flag --advertise-tls", "without a scheme"}},
		{"boolean of another kind", "serve --config FILE", home, "in-memory: yes\n", exit.Config,
			[]string{"line 1, key in-memory", `value "yes"`, "true or false"}},
		{"no place for the data", "serve", nil, "", exit.Config,
			[]string{"no data directory", "XDG_STATE_HOME", "--data-dir", "COORDD_DATA_DIR", "data-dir"}},

		{"no config file", "serve --config /nowhere/c.yaml", home, "", exit.Config,
			[]string{"flag --config", "/nowhere/c.yaml", "no such file"}},
		{"no config file, by variable", "serve", append(home, "COORDD_CONFIG=/nowhere/c.yaml"), "",
			exit.Config,
			[]string{"variable COORDD_CONFIG", "/nowhere/c.yaml"}},
		{"directory as config file", "serve --config /", home, "", exit.Config,
			[]string{"flag --config", "is a directory"}},
		{"slip in a key", "serve --config FILE", home, "listen: :1\ndata_dir: /d\n", exit.Config,
			[]string{"FILE, line 2, key data_dir", "unknown key", "did you mean data-dir?"}},
		{"unknown key", "serve --config FILE", home, "colour: red\n", exit.Config,
			[]string{"FILE, line 1, key colour", "unknown key", "listen, advertise, data-dir"}},
		{"aliases of aliases", "serve --config FILE", home,
			"listen: &a [x, x]\n" + strings.Repeat("advertise: [*a, *a, *a, *a, *a, *a, *a, *a]\n", 100),
			exit.Config, []string{"line 1, key listen", "want a single value"}},
		{"lists in lists", "serve --config FILE", home, strings.Repeat("[", 60_000), exit.Config,
			[]string{"FILE"}},
		{"config in the config", "serve --config FILE", home, "config: other.yaml\n",
			exit.Config, []string{"line 1, key config", "unknown key"}},
		{"unknown key where only the directory matters", "check --config FILE", home, "colour: red\n",
			exit.Config, []string{"line 1, key colour"}},
		{"key twice", "serve --config FILE", home, "listen: :1\nlisten: :2\n", exit.Config,
			[]string{"FILE", "line 2", "listen"}},
		{"list as value", "serve --config FILE", home, "listen: [a, b]\n", exit.Config,
			[]string{"line 1, key listen", "single value"}},
		{"no value", "serve --config FILE", home, "listen:\n", exit.Config,
			[]string{"line 1, key listen", "no value"}},
		{"reference as value", "serve --config FILE", home, "listen: &a :1\nadvertise: *a\n", exit.Config,
			[]string{"line 2, key advertise", "single value"}},
		{"list as file", "serve --config FILE", home, "- listen\n", exit.Config,
			[]string{"FILE", "line 1", "key: value"}},
		{"two documents", "serve --config FILE", home, "listen: :1\n---\nlisten: :2\n", exit.Config, []string{"FILE",
			"second document"}},
		{"not YAML", "serve --config FILE", home, "listen: :1\nadvertise: 'a\n", exit.Config,
			[]string{"FILE", "line 2"}},
		{"not YAML behind the first document", "serve --config FILE", home,
			"listen: :1\n---\n[", exit.Config, []string{"FILE", "line 3"}},
		{"too large", "serve --config FILE", home, "#" + strings.Repeat("x", serve.ConfigBytesMax) + "\n",
			exit.Config,
			[]string{"FILE", "larger than 65536 bytes"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			path := "unused"
			if test.file != "" {
				path = writeConfig(t, test.file)
			}
			r := newRun(newFakeServer(), test.environment...)
			code := r.run(strings.Fields(strings.ReplaceAll(test.args, "FILE", path)))
			message := strings.ReplaceAll(r.log.String(), path, "FILE")
			if code != test.code {
				t.Errorf("exit code %d, want %d", code, test.code)
			}
			if !strings.HasPrefix(message, "coordd: ") || r.out.String() != "" {
				t.Errorf("stdout %q, stderr %q, want one message on stderr", r.out.String(), message)
			}
			if hint := strings.Contains(message, "--help' for usage"); hint != (test.code == exit.Usage) {
				t.Errorf("hint to the help is %v in %q", hint, message)
			}
			inOrder(t, message, test.want)
		})
	}
}

// TestEmptyConfigFile wants a file without settings to be no mistake.
func TestEmptyConfigFile(t *testing.T) {
	for _, content := range []string{"", "\n", "# nothing\n", "---\n", "{}\n"} {
		got := served(t, []string{"HOME=/home/u", "COORDD_CONFIG=" + writeConfig(t, content)}, "serve")
		if got.Listen != "127.0.0.1:2136" {
			t.Errorf("%q: listen is %q, want the default", content, got.Listen)
		}
	}
}

// TestLargestConfigFile is the limit itself; TestRefusals has the byte beyond it.
func TestLargestConfigFile(t *testing.T) {
	content := "listen: :7\n#"
	content += strings.Repeat("x", serve.ConfigBytesMax-len(content))
	if got := served(t, []string{"HOME=/home/u"}, "serve", "--config",
		writeConfig(t, content)); got.Listen != ":7" {
		t.Errorf("listen is %q, want :7", got.Listen)
	}
}

// inOrder checks that text has all the parts, one behind the other.
func inOrder(t *testing.T, text string, parts []string) {
	t.Helper()
	rest := text
	for _, part := range parts {
		_, after, found := strings.Cut(rest, part)
		if !found {
			t.Errorf("%q does not have %q in the order of %q", text, part, parts)
			return
		}
		rest = after
	}
}
