package notify

import (
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"
)

func variables(values map[string]string) func(string) string {
	return func(name string) string { return values[name] }
}

// TestSend wants each state as one datagram, at a path and at an abstract address.
func TestSend(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("systemd is Linux's")
	}
	for _, address := range []string{filepath.Join(t.TempDir(), "n"),
		"@coordd-notify-test-" + strconv.Itoa(os.Getpid())} {
		socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Net: "unixgram", Name: address})
		if err != nil {
			t.Fatal(err)
		}
		defer socket.Close()
		manager := Of(variables(map[string]string{"NOTIFY_SOCKET": address}))
		for _, state := range []string{Ready, Alive, Stopping} {
			if err := manager.Send(state); err != nil {
				t.Fatal(err)
			}
			var got [64]byte
			n, err := socket.Read(got[:])
			if err != nil || string(got[:n]) != state {
				t.Errorf("%s: got %q, %v; want %q", address, got[:n], err, state)
			}
		}
	}
}

// TestWatchdog wants the watchdog of this process alone.
func TestWatchdog(t *testing.T) {
	self := strconv.Itoa(os.Getpid())
	for _, test := range []struct {
		pid, micros string
		want        time.Duration
	}{
		{"", "90000000", 90 * time.Second}, {self, "3000000", 3 * time.Second}, {"1", "3000000", 0}, {self, "", 0},
		{self, "-5", 0}, {self, "soon", 0},
	} {
		m := Of(variables(map[string]string{"NOTIFY_SOCKET": "/nowhere", "WATCHDOG_PID": test.pid,
			"WATCHDOG_USEC": test.micros}))
		if got := m.Watchdog(); got != test.want {
			t.Errorf("%+v: got %s", test, got)
		}
	}
	if none := Of(variables(nil)); none.Watchdog() != 0 || none.Send(Ready) != nil {
		t.Error("without a manager something is reported")
	}
}
