// Package notify reports the state of a service to the service manager, as sd_notify(3) does.
package notify

import (
	"net"
	"os"
	"strconv"
	"time"
)

// The states that are reported.
const (
	Ready    = "READY=1"
	Stopping = "STOPPING=1"
	Alive    = "WATCHDOG=1"
)

// Manager is the service manager that has started this process. Nil is no manager: nothing is reported.
type Manager struct {
	socket   string
	watchdog time.Duration
}

// Of returns the manager that environment variables name, nil if they name none.
func Of(value func(variable string) string) *Manager {
	m := &Manager{socket: value("NOTIFY_SOCKET")}
	if m.socket == "" {
		return nil
	}
	if of := value("WATCHDOG_PID"); of == "" || of == strconv.Itoa(os.Getpid()) {
		micros, _ := strconv.ParseInt(value("WATCHDOG_USEC"), 10, 64)
		m.watchdog = time.Duration(max(micros, 0)) * time.Microsecond
	}
	return m
}

// Send reports a state. Errors: those of the manager's socket.
func (m *Manager) Send(state string) error {
	if m == nil {
		return nil
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Net: "unixgram", Name: m.socket})
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = conn.Write([]byte(state))
	return err
}

// Watchdog is the time within which the manager wants Alive again and again, 0 if it does not want it.
func (m *Manager) Watchdog() time.Duration {
	if m == nil {
		return 0
	}
	return m.watchdog
}
