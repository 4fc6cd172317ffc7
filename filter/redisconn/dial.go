package redisconn

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/meshgate/meshgate/filter/contract"
)

// maxPEM bounds a file of certificates.
const maxPEM = 1 << 20

type dial = func(ctx context.Context, network, address string) (net.Conn, error)

// dials are the attempts to connect that are in progress. The library dials on goroutines
// that outlive the call that wanted a connection, so that a slow server can be reached at
// all.
type dials struct {
	ctx    context.Context
	cancel context.CancelFunc

	mu     sync.Mutex
	closed bool
	open   sync.WaitGroup
	conns  map[*keptConn]struct{} // connections that are not closed yet
}

func newDials() *dials {
	d := &dials{conns: map[*keptConn]struct{}{}}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	return d
}

// counted ties a dial to the life of the client. A connection that is there too late, since the
// client has ended or the time for it is up, is closed: whoever dialled need not look at its context.
func (d *dials) counted(next dial) dial {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		d.mu.Lock()
		if d.closed {
			d.mu.Unlock()
			return nil, net.ErrClosed
		}
		d.open.Add(1)
		d.mu.Unlock()
		defer d.open.Done()
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(d.ctx, cancel)()
		conn, err := next(ctx, network, address)
		if err != nil {
			return nil, err
		}
		if err = d.ctx.Err(); err != nil {
			err = net.ErrClosed
		} else {
			err = ctx.Err()
		}
		if err != nil {
			_ = conn.Close() // nobody has used it
			return nil, err
		}
		return conn, nil
	}
}

// end prevents further dials and cancels those in progress.
func (d *dials) end() {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	d.cancel()
}

func (d *dials) wait() { d.open.Wait() }

// late hides a failed dial until the first use of its connection. The library counts
// failures of its dialer: after some failures it returns the last error for a second without
// trying, and retries on a goroutine that nobody ends.
func late(next dial) dial {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := next(ctx, network, address)
		if err != nil {
			// The library returns what lies below the first error of a new connection. That
			// must still say that nothing was sent.
			return &noConn{err: fmt.Errorf("connect: %w", err)}, nil
		}
		return conn, nil
	}
}

// noConn stands for a connection that does not exist.
type noConn struct {
	err error
}

// SyscallConn implements [syscall.Conn], by which the library judges connections that it has
// kept. If the caller that wanted a connection has gone before the dial failed, this one is
// kept, and the failure would be told to somebody who comes when the server is well again.
func (n *noConn) SyscallConn() (syscall.RawConn, error) { return nil, n.err }

// Read implements [net.Conn].
func (n *noConn) Read([]byte) (int, error) { return 0, n.err }

// Write implements [net.Conn].
func (n *noConn) Write([]byte) (int, error) { return 0, n.err }

// Close implements [net.Conn].
func (n *noConn) Close() error { return nil }

// SetDeadline implements [net.Conn].
func (n *noConn) SetDeadline(time.Time) error { return nil }

// SetReadDeadline implements [net.Conn].
func (n *noConn) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline implements [net.Conn].
func (n *noConn) SetWriteDeadline(time.Time) error { return nil }

// LocalAddr implements [net.Conn].
func (n *noConn) LocalAddr() net.Addr { return &net.TCPAddr{} }

// RemoteAddr implements [net.Conn].
func (n *noConn) RemoteAddr() net.Addr { return &net.TCPAddr{} }

// kept remembers the opened connections for [dials.drop].
func (d *dials) kept(next dial) dial {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := next(ctx, network, address)
		if err != nil {
			return nil, err
		}
		k := &keptConn{Conn: conn, of: d}
		d.mu.Lock()
		d.conns[k] = struct{}{}
		d.mu.Unlock()
		return k, nil
	}
}

// drop closes every connection. The library notices when it wants to use one, and opens
// others.
func (d *dials) drop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for k := range d.conns {
		k.dropped.Store(true)
		_ = k.Conn.Close() // the connection is given up; its error does not matter
	}
	clear(d.conns)
}

// keptConn removes itself from the list when it is closed.
type keptConn struct {
	net.Conn
	of      *dials
	dropped atomic.Bool
}

// SyscallConn implements [syscall.Conn] for connections with TLS. The library cannot learn
// anything from their socket, so SyscallConn only tells whether the connection was dropped.
func (k *keptConn) SyscallConn() (syscall.RawConn, error) {
	if k.dropped.Load() {
		return nil, net.ErrClosed
	}
	return noSocket{}, nil
}

// noSocket stands for a socket that cannot be inspected.
type noSocket struct{}

// Control implements [syscall.RawConn].
func (noSocket) Control(func(uintptr)) error { return nil }

// Read implements [syscall.RawConn].
func (noSocket) Read(func(uintptr) bool) error { return nil }

// Write implements [syscall.RawConn].
func (noSocket) Write(func(uintptr) bool) error { return nil }

// Close implements [net.Conn].
func (k *keptConn) Close() error {
	k.of.mu.Lock()
	delete(k.of.conns, k)
	k.of.mu.Unlock()
	return k.Conn.Close()
}

// Check reads the files that settings name, and refuses settings that cannot be used. [Open]
// reads no file, because callers may not be allowed to wait for a disk.
func Check(s *contract.RedisSettings) error {
	t, err := parse(s.URL)
	if err != nil {
		return err
	}
	roots, err := rootsOf(s, t)
	if err == nil {
		_, err = roots()
	}
	return err
}

// rootsOf finds the authorities that vouch for a server. A nil pool means those of the
// system. A file is read at each call.
func rootsOf(s *contract.RedisSettings, t *address) (func() (*x509.CertPool, error), error) {
	if (s.CAFile != "" || s.CA != "") && !t.tls {
		return nil, errors.New("ca_file or ca needs a rediss:// url")
	}
	pool := (*x509.CertPool)(nil)
	switch {
	case s.CAFile != "":
		return func() (*x509.CertPool, error) { return readCertificates(s.CAFile) }, nil
	case s.CA != "":
		if pool = x509.NewCertPool(); !pool.AppendCertsFromPEM([]byte(s.CA)) {
			return nil, errors.New("ca holds no certificate")
		}
	}
	return func() (*x509.CertPool, error) { return pool, nil }, nil
}

// secured adds TLS if the target wants it.
func secured(next dial, t *address, roots func() (*x509.CertPool, error)) dial {
	if !t.tls {
		return next
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		pool, err := roots()
		if err != nil {
			return nil, err
		}
		name := t.serverName
		if name == "" {
			if name, _, err = net.SplitHostPort(address); err != nil {
				return nil, fmt.Errorf("tls to redis: %w", err)
			}
		}
		raw, err := next(ctx, network, address)
		if err != nil {
			return nil, err
		}
		conn := tls.Client(raw, &tls.Config{
			MinVersion: tls.VersionTLS12, RootCAs: pool, ServerName: name,
			InsecureSkipVerify: t.insecure, //nolint:gosec // only where the operator's URL says skip_verify
		})
		if err := conn.HandshakeContext(ctx); err != nil {
			_ = raw.Close() // the handshake's error is the one that matters
			return nil, fmt.Errorf("tls handshake with %s: %w", address, err)
		}
		return conn, nil
	}
}

func readCertificates(path string) (*x509.CertPool, error) {
	f, err := os.Open(path) //nolint:gosec // the path is the operator's
	if err != nil {
		return nil, fmt.Errorf("ca file: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxPEM+1))
	if err != nil {
		return nil, fmt.Errorf("ca file: %w", err)
	}
	if len(data) > maxPEM {
		return nil, fmt.Errorf("ca file %s exceeds %d bytes", path, maxPEM)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(data) {
		return nil, fmt.Errorf("ca file %s holds no certificate", path)
	}
	return pool, nil
}
