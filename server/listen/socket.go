package listen

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
)

// SocketName is the administrator's socket in a server's data directory.
const SocketName = "admin.sock"

// socketPathMax bounds the path of a socket in bytes on all systems; Linux takes 107.
const socketPathMax = 100

// partPattern names the folder in which a socket is made.
const partPattern = ".admin-*"

// Socket opens the socket in a directory for the owner of the directory alone, whatever the mode of the
// directory and the umask: it appears under its name only when its mode is right. One that was left behind is
// replaced, so the caller must be the only one who uses the directory. It is gone when it is closed.
func Socket(directory string) (net.Listener, error) {
	left, err := filepath.Glob(filepath.Join(escaped(directory), partPattern))
	if err != nil {
		return nil, err
	}
	for _, part := range left {
		if err := os.RemoveAll(part); err != nil {
			return nil, err
		}
	}
	return socket(directory, SocketName, partPattern, 0o600)
}

// SocketAt opens a socket of that path for the process's user alone, as Socket does. One that nobody listens
// on any more is replaced; whatever else has the name stays, and is an error.
func SocketAt(path string) (net.Listener, error) { return socketAt(path, 0o600) }

// GroupSocketAt is SocketAt for a socket that the process's group may open as well.
func GroupSocketAt(path string) (net.Listener, error) { return socketAt(path, 0o660) }

func socketAt(path string, mode os.FileMode) (net.Listener, error) {
	switch there, err := os.Lstat(path); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	case there.Mode().Type() != fs.ModeSocket:
		return nil, &fs.PathError{Op: "listen", Path: path, Err: fs.ErrExist}
	default:
		if conn, err := DialSocket(context.Background(), path); err == nil {
			return nil, errors.Join(&fs.PathError{Op: "listen", Path: path, Err: syscall.EADDRINUSE},
				conn.Close())
		}
	}
	// nobody removes one that a crash leaves there: it is an empty folder
	return socket(filepath.Dir(path), filepath.Base(path), ".socket-*", mode)
}

// socket makes the socket in a folder beside its place, and moves it there.
func socket(directory, called, pattern string, mode os.FileMode) (net.Listener, error) {
	part, err := os.MkdirTemp(directory, pattern)
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(part)
	made, name := filepath.Join(part, "s"), filepath.Join(directory, called)
	var listener *net.UnixListener
	err = within(made, func(path string) (err error) {
		listener, err = net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: path})
		return err
	})
	if err != nil {
		return nil, err
	}
	listener.SetUnlinkOnClose(false) // it gets another name
	if err := errors.Join(os.Chmod(made, mode), os.Rename(made, name)); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	return socketListener{listener, name}, nil
}

// escaped is a path in which filepath.Glob finds no pattern.
func escaped(path string) string {
	var text []rune
	for _, r := range path {
		if r == '*' || r == '?' || r == '[' || r == '\\' {
			text = append(text, '\\')
		}
		text = append(text, r)
	}
	return string(text)
}

// socketListener removes its socket when it is closed.
type socketListener struct {
	*net.UnixListener
	name string
}

// Close implements net.Listener.
func (l socketListener) Close() error {
	err := l.UnixListener.Close()
	if removed := os.Remove(l.name); !errors.Is(removed, fs.ErrNotExist) {
		err = errors.Join(err, removed)
	}
	return err
}

// DialSocket connects to the socket of that path.
func DialSocket(ctx context.Context, path string) (conn net.Conn, err error) {
	err = within(path, func(path string) (err error) {
		conn, err = new(net.Dialer).DialContext(ctx, "unix", path)
		return err
	})
	return conn, err
}

// within calls use with a path of a file that is short enough for a socket.
func within(path string, use func(path string) error) error {
	if len(path) <= socketPathMax {
		return use(path)
	}
	if runtime.GOOS != "linux" {
		return fmt.Errorf("the path of the socket, %s, has more than %d bytes", path, socketPathMax)
	}
	folder, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer folder.Close()
	return use(fmt.Sprintf("/proc/self/fd/%d/%s", folder.Fd(), filepath.Base(path)))
}
