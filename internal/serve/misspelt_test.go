package serve

import (
	"strings"
	"testing"

	"github.com/coordd/coordd/internal/cmdline"
)

func TestMisspeltVariables(t *testing.T) {
	env := cmdline.Environment{
		"COORDD_LISTEN=:1",            // right
		"COORDD_DATADIR=/d",           // a slip
		"COORDD_BIN=bin/coordd",       // of this repository's tests
		"COORDD_PORT=tcp://192.0.2.1", // made by container platforms for a service of our name
		"COORDD_SERVICE_HOST=192.0.2.1",
		"OTHER_LISTN=:1",
	}
	got := misspeltVariables(env, Options)
	if len(got) != 1 || !strings.Contains(got[0], "COORDD_DATADIR") ||
		!strings.Contains(got[0], "COORDD_DATA_DIR?") {
		t.Errorf("got %q, want one warning about COORDD_DATADIR", got)
	}
}
