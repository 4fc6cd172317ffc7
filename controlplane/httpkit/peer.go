package httpkit

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
)

type connKey struct{}

// ConnContext makes the connection of a request known to its handlers; every
// [Server] uses it as http.Server.ConnContext.
func ConnContext(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, conn)
}

// PeerCertificate returns the verified client certificate of the connection
// that carries the request, or nil if it has none. Certificates that were
// presented but not verified do not count.
func PeerCertificate(ctx context.Context) *x509.Certificate {
	conn, ok := ctx.Value(connKey{}).(*tls.Conn)
	if !ok {
		return nil
	}
	state := conn.ConnectionState()
	if len(state.VerifiedChains) == 0 || len(state.PeerCertificates) == 0 {
		return nil
	}
	return state.PeerCertificates[0]
}
