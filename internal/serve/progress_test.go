package serve

import (
	"bytes"
	"log/slog"
	"net"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/notify"
)

// TestProgressOfAStart wants lines about progress, and no others, at the service manager, whatever the log's level.
func TestProgressOfAStart(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("systemd is Linux's")
	}
	address := filepath.Join(t.TempDir(), "n")
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Net: "unixgram", Name: address})
	if err != nil {
		t.Fatal(err)
	}
	defer manager.Close()
	var log bytes.Buffer
	logger := slog.New(progressHandler{slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}),
		notify.Of(func(name string) string { return map[string]string{"NOTIFY_SOCKET": address}[name] })})
	logger.Info("serving", "connection", "x")
	logger.With("server", "a").Info("reading the log", "files", 3, "of", 10)
	got := make([]byte, 200)
	if err := manager.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	n, err := manager.Read(got)
	want := "STATUS=reading the log: 3 of 10 files\nEXTEND_TIMEOUT_USEC=30000000"
	if err != nil || string(got[:n]) != want {
		t.Errorf("got %q, %v, want %q", got[:n], err, want)
	}
	if log.Len() > 0 {
		t.Errorf("the log has %s", &log)
	}
}
