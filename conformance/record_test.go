package conformance_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	rpc "google.golang.org/grpc"

	"github.com/coordd/coordd/conformance"
	"github.com/coordd/coordd/conformance/raw"
	"github.com/coordd/coordd/conformance/record"
	"github.com/coordd/coordd/server"
	"github.com/coordd/coordd/server/standin"
)

const recordedNode = "/local/app/locks"

// recorded has clients do something on a stand-in, and returns the script of it. The stand-in goes on.
func recorded(t *testing.T, do func(*rpc.ClientConn)) (script *conformance.Script, text, address string) {
	t.Helper()
	return recordedUpTo(t, record.MaxBytes, do)
}

func recordedUpTo(t *testing.T, most int, do func(*rpc.ClientConn)) (script *conformance.Script, text, address string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "recording.txt")
	recorder, err := record.Start(file, "/local", most)
	if err != nil {
		t.Fatal(err)
	}
	running, err := standin.RunProcess(t.Context(), server.Config{Listen: "127.0.0.1:0", Database: "/local"},
		standin.Tap(recorder))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := running.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	address = strings.TrimSuffix(strings.TrimPrefix(running.ConnectionString(), "grpc://"), "/local")
	conns, err := raw.Dial(address, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close(conns)
	do(conns[0])
	if err := recorder.Close(); err != nil {
		t.Fatal(err)
	}
	running.Faults().SetTap(nil)
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if status, err := os.Stat(file); err != nil || status.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", status.Mode(), err)
	}
	if script, err = conformance.Parse("recording", string(content)); err != nil {
		t.Fatalf("%v in\n%s", err, content)
	}
	return script, string(content), address
}

// replays is the number of replays of a recording: 100 in the long form.
func replays(t *testing.T) int {
	n, err := strconv.Atoi(os.Getenv("REPLAYS"))
	if os.Getenv("REPLAYS") == "" {
		return 3
	}
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// replaysOnItself wants a recording to show the same again, on the rings and on the server where it was made.
func replaysOnItself(t *testing.T, script *conformance.Script, text, address string) {
	t.Helper()
	target, err := conformance.Dial(t.Context(), conformance.EndpointConfig{Address: address, Database: "/local",
		Patience: 2 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := target.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	for i := range replays(t) {
		for name, target := range map[string]conformance.Target{"the rings": &conformance.Pure{},
			"the server": target} {
			outcome, err := conformance.Run(t.Context(), target, script)
			if err != nil || outcome.Skipped != "" || outcome.Diff != "" {
				t.Fatalf("replay %d on %s: %v %s\n%s\nof\n%s", i, name, err, outcome.Skipped, outcome.Diff,
					text)
			}
		}
	}
}

// Clients that race for a lock are recorded as it came, and it comes so again.
func TestRecordingOfARace(t *testing.T) {
	const clients, rounds = 5, 4
	script, text, address := recorded(t, func(conn *rpc.ClientConn) {
		if err := raw.CreateNode(t.Context(), conn, recordedNode); err != nil {
			t.Error(err)
			return
		}
		var racing sync.WaitGroup
		for i := range clients {
			racing.Go(func() {
				s, err := raw.Open(t.Context(), conn, &raw.Start{Path: recordedNode, TimeoutMillis: 60_000})
				if err == nil {
					err = s.Create("door", 2)
				}
				for range rounds {
					if err == nil {
						err = s.Acquire("door", 1)
					}
					if err == nil && i == 0 {
						_, err = s.Describe("door", false)
					}
					if err == nil {
						err = s.Release("door")
					}
				}
				if err != nil {
					t.Errorf("client %d: %v", i, err)
				}
			})
		}
		racing.Wait()
	})
	if n := strings.Count(text, ": acquire door"); n != clients*rounds {
		t.Errorf("%d acquires in\n%s", n, text)
	}
	replaysOnItself(t, script, text, address)
}

// A client dies, and who waits for its lock has it once its session has expired. Names stand for keys and
// sessions.
func TestRecordingOfAnExpiry(t *testing.T) {
	script, text, address := recorded(t, func(conn *rpc.ClientConn) {
		dying, die := context.WithCancel(t.Context())
		defer die()
		if _, err := raw.Open(dying, conn, &raw.Start{Path: recordedNode, TimeoutMillis: 400}); err == nil {
			t.Error("there was no node")
			return
		}
		if err := raw.CreateNode(t.Context(), conn, recordedNode); err != nil {
			t.Error(err)
			return
		}
		first, err := raw.Open(dying, conn, &raw.Start{Path: recordedNode, TimeoutMillis: 400,
			ProtectionKey: []byte("sesame"), Description: "a b"})
		if err == nil {
			err = first.Create("a lock", 1)
		}
		if err == nil {
			err = first.Hold("a lock", []byte{0, 1})
		}
		second, opened := raw.Open(t.Context(), conn, &raw.Start{Path: recordedNode, TimeoutMillis: 60_000})
		if err != nil || opened != nil {
			t.Error(err, opened)
			return
		}
		time.AfterFunc(150*time.Millisecond, die)
		if err := second.Acquire("a lock", 1); err != nil {
			t.Error(err)
		}
		again, err := raw.Open(t.Context(), conn,
			&raw.Start{Path: recordedNode, SessionId: first.ID, TimeoutMillis: 400,
				ProtectionKey: []byte("sesame")})
		if err == nil {
			t.Errorf("session %d is still there", again.ID)
		}
	})
	for _, want := range []string{"node create {dir}/app/locks", "wait ", "cancel", `acquire "a lock"`,
		"data=0x0001", "session=s2", "key=key1", `description="a b"`} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s", want)
		}
	}
	if strings.Contains(text, "sesame") || t.Failed() {
		t.Errorf("got\n%s", text)
	}
	replaysOnItself(t, script, text, address)
}

// Messages too large for a recording are left out, and the recording notes it.
func TestRecordingIsBounded(t *testing.T) {
	const most = 64 << 10
	data := strings.Repeat("x", 5<<10)
	_, text, _ := recordedUpTo(t, most, func(conn *rpc.ClientConn) {
		if _, err := raw.Open(t.Context(), conn,
			&raw.Start{Path: recordedNode, TimeoutMillis: 60_000}); err == nil {
			t.Error("there was no node")
		}
		if err := raw.CreateNode(t.Context(), conn, recordedNode); err != nil {
			t.Error(err)
		}
		s, err := raw.Open(t.Context(), conn, &raw.Start{Path: recordedNode, TimeoutMillis: 60_000})
		if err == nil {
			err = s.Create("config", 1)
		}
		for i := 0; i < 20 && err == nil; i++ {
			err = s.Update("config", []byte(fmt.Sprint(i%10)+data))
		}
		if err != nil {
			t.Error(err)
		}
	})
	if len(text) > most+100 || !strings.Contains(text, "The recording ends here") ||
		strings.Count(text, "update config") < 10 {
		t.Errorf("%d bytes, %d updates", len(text), strings.Count(text, "update config"))
	}
}
