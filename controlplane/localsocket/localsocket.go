// Package localsocket opens and dials Unix sockets that only their owner may use, whatever the length
// of their path.
package localsocket

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
)

// maxPath is the length of a path that every kernel takes (sun_path of unix(7), without its end).
const maxPath = 103

// Listen opens a socket. It replaces one that an earlier process has left: the caller has made sure that
// nobody else serves it.
func Listen(ctx context.Context, path string) (net.Listener, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("socket %s: %w", filepath.Base(path), err)
	}
	var lc net.ListenConfig
	ln, err := within(path, func(name string) (net.Listener, error) { return lc.Listen(ctx, "unix", name) })
	if err != nil {
		return nil, fmt.Errorf("socket %s: %w", filepath.Base(path), err)
	}
	// What a listener was opened with may mean nothing any more when it is closed.
	ln.(*net.UnixListener).SetUnlinkOnClose(false)
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("socket %s: %w", filepath.Base(path), err), ln.Close())
	}
	return &listener{ln, path}, nil
}

// listener removes its socket when it is closed.
type listener struct {
	net.Listener
	path string
}

// Close implements [net.Listener].
func (l *listener) Close() error {
	err := l.Listener.Close()
	if err == nil { // a second call must not remove the socket of a successor
		_ = os.Remove(l.path) // whoever comes next replaces it
	}
	return err
}

// Dial connects to a socket.
func Dial(ctx context.Context, path string) (net.Conn, error) {
	var d net.Dialer
	return within(path, func(name string) (net.Conn, error) { return d.DialContext(ctx, "unix", name) })
}

// within calls a function with a name of a socket that is short enough. A long path is reached through
// its open directory.
func within[T any](path string, call func(name string) (T, error)) (T, error) {
	if len(path) <= maxPath {
		return call(path)
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return *new(T), err
	}
	defer func() { _ = dir.Close() }() // it was only looked up
	return call(fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(path)))
}
