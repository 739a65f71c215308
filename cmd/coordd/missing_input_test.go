package main

import (
	"strings"
	"testing"

	"github.com/coordd/coordd/internal/exit"
)

// innerText has words of YDB's parts, of gRPC and of Go that mean nothing to the caller of a command.
var innerText = []string{"esus", "EPath", "working dir", "Table path", "SCHEME_ERROR)", "rpc error", "invalid argument",
	"strconv", "context deadline"}

// TestInputAboutWhatIsNotThere gives names, paths and values that are wrong to commands that ask a server: the message
// names the value, what was expected or what helps, in plain words, and what does not exist has a code of its own.
func TestInputAboutWhatIsNotThere(t *testing.T) {
	t.Parallel()
	_, endpoint, _ := lockServer(t)
	does(t, endpoint, "mkdir dir")
	does(t, endpoint, "semaphore create app door --limit 3")
	slash := "did you mean /local/app, with a slash at the beginning?"
	missing := "there is no coordination node /local/none; `coordd node create /local/none` makes it"
	for _, test := range []struct {
		args string
		code exit.Code
		want string
	}{
		{"lok app x", exit.Usage, `"lok"; did you mean lock?`},
		{"lokc app x", exit.Usage, `"lokc"; did you mean lock?`},
		{"watch app x", exit.Usage,
			"did you mean 'coordd config watch' or 'coordd semaphore watch'?"},
		{"kill app 1", exit.Usage, "did you mean 'coordd session kill'?"},
		{"semaphore shwo app door", exit.Usage, `"shwo"; did you mean show?`},
		{"completion tcsh", exit.Usage, `"tcsh"; known are bash, fish, powershell, zsh`},
		{"completion", exit.Usage, "known are bash"},
		{"lock none x -- /bin/true", exit.NotRun, missing},
		{"lock local/app x -- /bin/true", exit.NotRun, slash},
		{"lock dir x -- /bin/true", exit.NotRun, "/local/dir"},
		{"lock app x true", exit.NotRun, "there is no --"},
		{"lock app x --", exit.NotRun, "no command given"},
		{"lock app x --timeout 5 -- /bin/true", exit.NotRun,
			`flag --timeout: value "5" is not allowed: want a time such as`},
		{"lock app x --count two -- /bin/true", exit.NotRun,
			`flag --count: value "two" is not allowed: want a number`},
		{"lock app door --count 4 -- /bin/true", exit.NotRun, "value 4 is not allowed"},
		{"lock app door --shared --count 2 -- x", exit.NotRun, "--shared and --count"},
		{"lock app x -- /no/such/command", exit.NoSuch, "/no/such/command"},
		{"elect app x --timeout -1s", exit.Usage, "-1s"},
		{"elect none x --observe --changes 1", exit.NotFound, missing},
		{"discover none svc", exit.NotFound, missing},
		{"config get app none", exit.NotFound, `"none"`},
		{"config get none x", exit.NotFound, missing},
		{"config get local/app x", exit.NotFound, slash},
		{"config set none x y", exit.NotFound, missing},
		{"config watch none x --changes 1", exit.NotFound, missing},
		{"semaphore show app none", exit.NotFound, `"none"`},
		{"semaphore set app none x", exit.NotFound, `"none"`},
		{"semaphore delete app none", exit.NotFound, `"none"`},
		{"semaphore create app door --limit 3", exit.Failure, `"door": Semaphore already exists`},
		{"semaphore create app new", exit.Usage, "flag --limit: no value given"},
		{"semaphore ls none", exit.NotFound, "no such directory"},
		{"session show app 99", exit.NotFound, "/local/app has no session 99"},
		{"session kill app 99", exit.NotFound, "/local/app has no session 99"},
		{"session kill app x", exit.Usage, `argument SESSION: value "x"`},
		{"session ls none", exit.NotFound, "no such directory"},
		{"node show dir", exit.NotFound, "/local/dir: there is no such coordination node"},
		{"node show none", exit.NotFound, "/local/none"},
		{"node drop none", exit.NotFound, "/local/none"},
		{"node drop dir", exit.Failure, "/local/dir: it is not a coordination node"},
		{"node alter none --attach-consistency x", exit.Usage, "flag --attach-consistency"},
		{"node create /prod/app", exit.Failure, "the database of this server is /local"},
		{"node create app/below", exit.Failure, "/local/app/below"},
		{"node ls none", exit.NotFound, "no such directory"},
		{"ls none", exit.NotFound, "/local/none"},
		{"ls local/app", exit.NotFound, slash},
		{"ls -d /prod", exit.Usage, "/prod"},
		{"mkdir /prod/x", exit.Failure, "the database of this server is /local"},
		{"mkdir app", exit.Failure, "it is a coordination node, not a directory"},
		{"rmdir app", exit.Failure, "it is a coordination node, not a directory"},
		{"rmdir none", exit.NotFound, "/local/none"},
		{"grant none bob ydb.generic.use", exit.NotFound, "/local/none"},
		{"grant app bob read", exit.Usage, `argument PERMISSION: value "read"`},
		{"grant app bob ydb.generic.usee", exit.Failure, "ydb.generic.usee"},
		{"chown none bob", exit.NotFound, "/local/none"},
		{"ratelimiter describe app none", exit.NotFound, `"none"`},
		{"ratelimiter acquire app none", exit.NotFound, `"none"`},
		{"ratelimiter drop app none", exit.NotFound, `"none"`},
		{"ratelimiter create none r --rate 1", exit.NotFound, "/local/none"},
		{"ratelimiter create app r --rate fast", exit.Usage,
			`flag --rate: value "fast" is not allowed: want a number`},
		{"export none", exit.NotFound, "no such directory"},
		{"top --times two", exit.Usage,
			`flag --times: value "two" is not allowed: want a number`},
	} {
		t.Run(test.args, func(t *testing.T) {
			got := runBinary(t, []string{endpointVariable + "=" + endpoint}, strings.Fields(test.args)...)
			if got.code != test.code || !strings.Contains(got.stderr, test.want) {
				t.Errorf("exit code %d, want %d: %q, want %q", got.code, test.code, got.stderr, test.want)
			}
			for _, text := range innerText {
				if strings.Contains(got.stderr, text) {
					t.Errorf("it has %q: %s", text, got.stderr)
				}
			}
		})
	}
}
