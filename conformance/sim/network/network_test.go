package network

import (
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/conformance/sim/trace"
)

// pair returns both ends of a connection between two hosts.
func pair(t *testing.T, n *Network) (dialed, accepted net.Conn) {
	t.Helper()
	l, err := n.Listen("10.0.0.2:1")
	if err != nil {
		t.Fatal(err)
	}
	dialed, err = n.Dial(t.Context(), "10.0.0.1", "10.0.0.2:1")
	if err != nil {
		t.Fatal(err)
	}
	accepted, err = l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return dialed, accepted
}

func inNetwork(t *testing.T, test func(t *testing.T, n *Network, a, b net.Conn)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		delays := Delays{Min: time.Millisecond, Max: 2 * time.Millisecond}
		n := New(trace.New(nil, ""), rand.New(rand.NewPCG(1, 2)), delays)
		a, b := pair(t, n)
		test(t, n, a, b)
	})
}

// wait lets everything that is under way arrive.
func wait() { time.Sleep(time.Second) }

func write(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if _, err := c.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
}

// arrived returns what can be read at once.
func arrived(t *testing.T, c net.Conn) (string, error) {
	t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	buffer := make([]byte, 100)
	n, err := c.Read(buffer)
	return string(buffer[:n]), err
}

func wantArrived(t *testing.T, c net.Conn, want string) {
	t.Helper()
	if got, err := arrived(t, c); got != want {
		t.Errorf("%q has arrived, %v; want %q", got, err, want)
	}
}

func TestBytesArriveInOrderAndThenTheEnd(t *testing.T) {
	inNetwork(t, func(t *testing.T, _ *Network, a, b net.Conn) {
		write(t, a, "one ")
		write(t, a, "two")
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(b); string(got) != "one two" || err != nil {
			t.Errorf("got %q, %v", got, err)
		}
	})
}

func TestCutHoldsBytesUp(t *testing.T) {
	inNetwork(t, func(t *testing.T, n *Network, a, b net.Conn) {
		n.Cut("10.0.0.1", "10.0.0.2", true)
		n.Cut("10.0.0.1", "10.0.0.2", true) // two faults at once
		write(t, a, "late")
		write(t, b, "back")
		n.Cut("10.0.0.1", "10.0.0.2", false)
		wait()
		wantArrived(t, b, "")
		wantArrived(t, a, "back")
		n.Cut("10.0.0.1", "10.0.0.2", false)
		wait()
		wantArrived(t, b, "late")
	})
}

func TestResetBreaksBothEnds(t *testing.T) {
	inNetwork(t, func(t *testing.T, n *Network, a, b net.Conn) {
		n.Reset("10.0.0.1", -1)
		for _, c := range []net.Conn{a, b} {
			if _, err := arrived(t, c); !errors.Is(err, errReset) {
				t.Errorf("read: %v", err)
			}
		}
	})
}

func TestSilentConnectionSaysNothing(t *testing.T) {
	inNetwork(t, func(t *testing.T, n *Network, a, b net.Conn) {
		n.Silence("10.0.0.1")
		write(t, a, "lost")
		wait()
		wantArrived(t, b, "")
	})
}

func TestCrashShowsOnceTheHostIsBack(t *testing.T) {
	inNetwork(t, func(t *testing.T, n *Network, a, _ net.Conn) {
		n.Crash("10.0.0.2", false)
		write(t, a, "to nobody")
		wait()
		wantArrived(t, a, "")
		if _, err := n.Dial(t.Context(), "10.0.0.1", "10.0.0.2:1"); err == nil {
			t.Error("a dead host took a connection")
		}
		if _, err := n.Listen("10.0.0.2:1"); err != nil {
			t.Fatal(err)
		}
		write(t, a, "to another process")
		wait()
		if _, err := arrived(t, a); !errors.Is(err, errReset) {
			t.Errorf("read: %v", err)
		}
	})
}

// In real time, where timers may fire in another order than they are due, bytes keep theirs.
func TestOrderInRealTime(t *testing.T) {
	n := New(trace.New(nil, ""), rand.New(rand.NewPCG(1, 2)), Delays{Min: time.Microsecond, Max: 2 * time.Microsecond})
	a, b := pair(t, n)
	const length = 20_000
	go func() {
		for i := range length {
			if _, err := a.Write([]byte{byte(i)}); err != nil {
				panic(err)
			}
		}
	}()
	got := make([]byte, length)
	if _, err := io.ReadFull(b, got); err != nil {
		t.Fatal(err)
	}
	for i := range got {
		if got[i] != byte(i) {
			t.Fatalf("byte %d is %d", i, got[i])
		}
	}
}
