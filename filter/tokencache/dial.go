package tokencache

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/meshgate/meshgate/filter/contract"
)

const (
	// connectTimeout bounds TCP, TLS, upgrade and Welcome together.
	connectTimeout = 3 * time.Second
	// maxUpgrade bounds the answer to the upgrade in bytes.
	maxUpgrade = 64 << 10
	// maxToken bounds the node token in bytes.
	maxToken = 16 << 10
	// maxPEM bounds a file of certificates.
	maxPEM = 1 << 20
)

// linkConn is a connection after its upgrade. Reads go through the buffer that
// read the answer, for frames may have come right behind it.
type linkConn struct {
	*tls.Conn
	buffered *bufio.Reader
}

func (c *linkConn) Read(p []byte) (int, error) { return c.buffered.Read(p) }

// Close leaves out the goodbye of TLS, which could wait for a dead peer.
func (c *linkConn) Close() error { return c.NetConn().Close() }

// dialLink connects to the control plane and upgrades the connection. The CA
// and the node token are read anew each time, so that rotated ones serve; see [Cache.proofs].
func (c *Cache) dialLink(ctx context.Context, cp contract.ControlPlaneSettings) (*linkConn, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	host, _, err := net.SplitHostPort(cp.Address)
	if err != nil {
		return nil, fmt.Errorf("address: %w", err)
	}
	p, err := c.proofs(ctx, cp)
	if err != nil {
		return nil, err
	}
	conn, err := dialTLS(ctx, c.opts.DialLink, "tcp", cp.Address, &tls.Config{
		MinVersion: tls.VersionTLS13,
		RootCAs:    p.roots,
		ServerName: host,
		NextProtos: []string{"http/1.1"}, // HTTP/2 has no such upgrade
		// A gateway has a certificate of this authority, by the same host names.
		VerifyConnection: contract.IsDataPlane,
	})
	if err != nil {
		return nil, err
	}
	// AfterFunc bounds the upgrade by the context, as reads know deadlines only.
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	up, err := upgrade(conn, cp, p.token)
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		_ = conn.NetConn().Close() // the first error is the one that matters
		return nil, err
	}
	return up, nil
}

func readToken(path string) (string, error) {
	data, err := readLimited(path, maxToken)
	if err != nil {
		return "", fmt.Errorf("token file: %w", err)
	}
	token := strings.TrimSpace(string(data))
	if token == "" || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", fmt.Errorf("token file %s holds no token", path)
	}
	return token, nil
}

// upgrade asks for the link protocol. Source: RFC 9110 section 7.8.
func upgrade(conn *tls.Conn, cp contract.ControlPlaneSettings, token string) (*linkConn, error) {
	req, err := http.NewRequest(http.MethodGet, "https://"+cp.Address+contract.LinkPath, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("address: %w", err)
	}
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", contract.LinkProtocol)
	req.Header.Set(contract.NodeHeader, cp.Node)
	// A line for each: control planes of before the second look at the first alone.
	req.Header[contract.AcceptHeader] = []string{contract.AcceptLevel2, contract.AcceptReasons, contract.AcceptScopes, contract.AcceptPlanes}
	req.Header.Set("Authorization", "Bearer "+token)
	if err := req.Write(conn); err != nil {
		return nil, fmt.Errorf("send upgrade: %w", err)
	}
	limited := &io.LimitedReader{R: conn, N: maxUpgrade}
	buffered := bufio.NewReader(limited)
	res, err := http.ReadResponse(buffered, req)
	if err != nil {
		return nil, fmt.Errorf("read answer to upgrade: %w", err)
	}
	_ = res.Body.Close() // a 101 has none, and any other answer is dropped with the connection
	if res.StatusCode != http.StatusSwitchingProtocols {
		return nil, fmt.Errorf("control plane answered %d to the upgrade", res.StatusCode)
	}
	if !strings.EqualFold(res.Header.Get("Upgrade"), contract.LinkProtocol) {
		return nil, errors.New("control plane switched to another protocol")
	}
	limited.N = math.MaxInt64
	return &linkConn{Conn: conn, buffered: buffered}, nil
}

// dialTLS connects and finishes the handshake within the context.
func dialTLS(ctx context.Context, dial Dial, network, address string, cfg *tls.Config) (*tls.Conn, error) {
	raw, err := dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	conn := tls.Client(raw, cfg)
	if err := conn.HandshakeContext(ctx); err != nil {
		_ = raw.Close() // the handshake's error is the one that matters
		return nil, fmt.Errorf("tls handshake with %s: %w", address, err)
	}
	return conn, nil
}

func readCertificates(path string) (*x509.CertPool, error) {
	data, err := readLimited(path, maxPEM)
	if err != nil {
		return nil, fmt.Errorf("ca file: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(data) {
		return nil, fmt.Errorf("ca file %s holds no certificate", path)
	}
	return pool, nil
}

// readLimited reads a whole file of at most limit bytes.
func readLimited(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path) //nolint:gosec // the path is the operator's
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("%s exceeds %d bytes", path, limit)
	}
	return data, err
}
