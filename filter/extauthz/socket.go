package extauthz

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/meshgate/meshgate/filter/contract"
)

// maxPath is the length of the longest path of a Unix socket on Linux, without its final zero.
// maxFolder leaves room for the name under which a socket is made.
const (
	maxPath   = 107
	maxFolder = maxPath - len("/.0123456789/s")
)

// Listen opens the Unix socket of an address for [Server.Serve], see [contract.SocketPath]. Only
// the user of this process may connect to it, and nobody else may put another one in its place,
// see [CheckFolder]. A socket that a process has left behind is replaced, one that answers is not.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	path, err := contract.SocketPath(address)
	if err != nil {
		return nil, fmt.Errorf("%q %w", address, err)
	}
	if err := CheckFolder(filepath.Dir(path)); err != nil {
		return nil, err
	}
	if err := vacant(ctx, path); err != nil {
		return nil, err
	}
	return open(ctx, path)
}

// vacant returns an error unless the path is free or holds a socket on which nobody listens.
func vacant(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("look for the old socket: %w", err)
	case info.Mode()&os.ModeSocket == 0:
		return fmt.Errorf("%s is no socket, and stays as it is", path)
	}
	c, err := new(net.Dialer).DialContext(ctx, "unix", path)
	switch {
	case err == nil:
		_ = c.Close()
		return fmt.Errorf("another server listens on %s", path)
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, os.ErrNotExist):
		return nil
	}
	return fmt.Errorf("another server may listen on %s: %w", path, err)
}

// open makes a socket where nobody else may go, and moves it to its path when nobody else may
// use it. At the path itself it would be for everybody whom the umask lets, until its mode is
// set.
func open(ctx context.Context, path string) (net.Listener, error) {
	dir := filepath.Dir(path)
	if len(dir) > maxFolder || len(path) > maxPath {
		return nil, fmt.Errorf("the path %s is too long: that of its folder may have %d bytes, and %d with the name", path, maxFolder, maxPath)
	}
	private, err := os.MkdirTemp(dir, ".") // of mode 0700
	if err != nil {
		return nil, fmt.Errorf("make the socket: %w", err)
	}
	defer func() { _ = os.RemoveAll(private) }()
	inside := filepath.Join(private, "s")
	lis, err := new(net.ListenConfig).Listen(ctx, "unix", inside)
	if err != nil {
		return nil, err
	}
	s := &socket{UnixListener: lis.(*net.UnixListener), path: path}
	s.SetUnlinkOnClose(false) // it knows the name inside only
	err = os.Chmod(inside, 0o600)
	if err == nil {
		s.made, err = os.Lstat(inside)
	}
	if err == nil {
		err = os.Rename(inside, path)
	}
	if err != nil {
		_ = lis.Close()
		return nil, fmt.Errorf("make the socket: %w", err)
	}
	return s, nil
}

// socket is a listener that has been moved to its path.
type socket struct {
	*net.UnixListener
	path string
	made os.FileInfo // the socket itself, which keeps its inode when it is moved
	once sync.Once
}

// Addr returns the path.
func (s *socket) Addr() net.Addr { return &net.UnixAddr{Name: s.path, Net: "unix"} }

// InPlace returns an error unless those who connect to the address of a listener of [Listen] reach
// it: somebody may have removed its socket, or put another one in its place.
func InPlace(lis net.Listener) error {
	s, ok := lis.(*socket)
	if !ok {
		return fmt.Errorf("%s is no socket of Listen", lis.Addr())
	}
	now, err := os.Lstat(s.path)
	switch {
	case err != nil:
		return fmt.Errorf("its socket is gone: %w", err)
	case !os.SameFile(s.made, now):
		return fmt.Errorf("another socket is at %s", s.path)
	}
	return nil
}

// Close removes the socket, too, unless another service has replaced it: of two that start at the
// same time each may have found the path free.
func (s *socket) Close() error {
	s.once.Do(func() {
		if InPlace(s) == nil {
			_ = os.Remove(s.path)
		}
	})
	return s.UnixListener.Close()
}
