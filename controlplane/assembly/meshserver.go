package assembly

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/xds/pemtext"
)

// openMeshTLS checks the files of the encrypted port of the mesh API at start.
func (cp *ControlPlane) openMeshTLS() (err error) {
	m := &cp.cfg.Mesh
	if m.TLSCertFile != "" {
		cp.meshCert = &reread[tls.Certificate]{files: []string{m.TLSCertFile, m.TLSKeyFile}, parse: parseKeyPair, log: cp.Log}
		if _, err := cp.meshCert.get(); err != nil {
			return fault.NotBegun(fmt.Errorf("mesh.tlsCertFile and mesh.tlsKeyFile: %w", err))
		}
	}
	if file := cp.cfg.Access.ClientCAFile; file != "" {
		cp.clientCAs = &reread[clientCAs]{files: []string{file}, parse: parseAuthorities, log: cp.Log}
		if _, err := cp.clientCAs.get(); err != nil {
			return fault.NotBegun(fmt.Errorf("access.clientCAFile: %w", err))
		}
	}
	if ip := net.ParseIP(m.Listen); ip != nil && !ip.IsLoopback() {
		cp.Log.Warn("tokens can be overheard on the port of the mesh API without TLS: use mesh.tlsPort, and keep the other from the network",
			"mesh_port", m.Port, "tls_port", m.TLSPort)
	}
	return nil
}

// usersTLS is the TLS configuration of an encrypted port whose callers may have client
// certificates. Only the configured authorities name users: certificates of gateways, which
// the control plane's own authority signs, name nobody here. cert is nil for a certificate
// of that authority.
func (cp *ControlPlane) usersTLS(cert *reread[tls.Certificate]) *tls.Config {
	base := cp.authority.ServerConfig(cp.names())
	base.NextProtos = []string{"http/1.1"}
	base.ClientAuth, base.ClientCAs = tls.NoClientCert, nil
	base.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		now := base.Clone()
		now.GetConfigForClient = nil
		if cert != nil {
			now.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return cert.get() }
		}
		if cp.clientCAs == nil {
			return now, nil
		}
		trusted, err := cp.clientCAs.get()
		if err != nil {
			return nil, err
		}
		now.ClientAuth, now.ClientCAs = tls.VerifyClientCertIfGiven, trusted.pool
		return now, nil
	}
	return base
}

// reread is what files contain. It is read again when a file has changed. If the new content
// is no good, the old one stays, and the log says so once.
type reread[T any] struct {
	files []string
	parse func(content [][]byte) (*T, error)
	log   *slog.Logger

	mu    sync.Mutex
	state []stamp
	value *T
}

// stamp tells versions of a file apart.
type stamp struct {
	modified time.Time
	size     int64
}

// get returns the value. The error is that of the first reading.
func (r *reread[T]) get() (*T, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	state := make([]stamp, len(r.files))
	for i, name := range r.files {
		if info, err := os.Stat(name); err == nil { // one that is missing is said by reading it
			state[i] = stamp{info.ModTime(), info.Size()}
		}
	}
	if r.value != nil && equalStamps(state, r.state) {
		return r.value, nil
	}
	value, err := r.read()
	r.state = state
	if err != nil {
		if r.value == nil {
			return nil, err
		}
		r.log.Error("a file has changed and cannot be used; what it held before stays in use", "files", r.files, "error", err)
		return r.value, nil
	}
	r.value = value
	return value, nil
}

func (r *reread[T]) read() (*T, error) {
	content := make([][]byte, len(r.files))
	for i, name := range r.files {
		var err error
		if content[i], err = os.ReadFile(name); err != nil { //nolint:gosec // the operator names the files
			return nil, err
		}
	}
	return r.parse(content)
}

func equalStamps(a, b []stamp) bool {
	for i := range a {
		if i >= len(b) || !a[i].modified.Equal(b[i].modified) || a[i].size != b[i].size {
			return false
		}
	}
	return true
}

func parseKeyPair(content [][]byte) (*tls.Certificate, error) {
	pair, err := tls.X509KeyPair(content[0], content[1])
	return &pair, err
}

func parsePool(content [][]byte) (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(bytes.TrimSpace(content[0])) {
		return nil, errors.New("holds no certificate")
	}
	return pool, nil
}

// clientCAs are the authorities of client certificates. They are looked at for every request, see
// [httpkit.CertifiedUser].
type clientCAs struct {
	pool *x509.CertPool
	each []*x509.Certificate
}

func (a *clientCAs) has(c *x509.Certificate) bool { return slices.ContainsFunc(a.each, c.Equal) }

func parseAuthorities(content [][]byte) (*clientCAs, error) {
	a := &clientCAs{pool: x509.NewCertPool(), each: pemtext.Parsed(content[0])}
	for _, c := range a.each {
		a.pool.AddCert(c)
	}
	if len(a.each) == 0 {
		return nil, errors.New("holds no certificate")
	}
	return a, nil
}
