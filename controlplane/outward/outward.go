// Package outward makes HTTP clients for addresses that users of an API choose, as the receivers
// of webhooks are. Such an address must not lead to what only this machine, or only its network,
// may reach: its loopback, the credentials that clouds give to machines, neighbours with private
// addresses, and the control plane's own ports.
//
// A name says nothing about where it leads, and may lead elsewhere a moment later. So the address
// is judged when the connection is made, after the name was resolved, on every attempt.
package outward

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"code.dny.dev/ssrf"
)

const (
	// maxAnswer bounds what is read of an answer. Nobody is shown any of it.
	maxAnswer = 64 << 10
	// maxHeaders bounds the header of an answer.
	maxHeaders = 64 << 10
	// connectTimeout is how long a connection may take, with its TLS handshake in addition.
	connectTimeout = 5 * time.Second
	// Timeout is how long a request may take as a whole.
	Timeout = 15 * time.Second
	// idleTimeout is how long a connection is kept for the next request.
	idleTimeout = 30 * time.Second
	// maxIdle bounds such connections to one host, to which many portals may send at a time, and maxIdleAll
	// those to all hosts. Each that is not kept costs the next request a handshake.
	maxIdle    = 32
	maxIdleAll = 256
)

// ErrNotAllowed is the error of a connection to an address that is not allowed. It does not name
// the address: whoever chose a name must not learn what it means in this network.
var ErrNotAllowed = errors.New("the address is not allowed")

// ErrPlain is the error of a request in clear text to an address that no setting names. What it carries
// could be read on the way.
var ErrPlain = errors.New("plain HTTP is sent only to networks that audit.allowedNetworks names: use HTTPS")

// Options say where requests may go.
type Options struct {
	// Allowed are networks that are allowed although they are private, loopback or reserved. Requests
	// in clear text go nowhere else.
	Allowed []netip.Prefix
	// Own reports whether the control plane itself listens at a port of one of the machine's own
	// addresses. Those are never allowed. It is called for each connection.
	Own func(netip.AddrPort) bool
	// Roots are the authorities that certificates must come from; those of the system if it is nil.
	Roots *x509.CertPool
	// SkipVerify accepts any certificate.
	SkipVerify bool
	// Resolver finds the addresses of names; the default one if it is nil.
	Resolver *net.Resolver
}

// Client makes requests to addresses of strangers. It is safe for concurrent use.
type Client struct {
	// secure sends over TLS, plain in clear text.
	secure, plain http.Client
}

// New returns a client. Close ends it.
func New(o Options) *Client { return &Client{secure: o.client(o.safe()), plain: o.client(o.named())} }

// client makes requests to addresses that judge finds nothing wrong with.
func (o *Options) client(judge func(netip.AddrPort) error) http.Client {
	dialer := &net.Dialer{Timeout: connectTimeout, Control: control(judge), Resolver: o.Resolver}
	return http.Client{
		Transport: &http.Transport{
			// A proxy of the environment would connect for us, to where nobody judges.
			Proxy:                  nil,
			DialContext:            dialer.DialContext,
			TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: o.Roots, InsecureSkipVerify: o.SkipVerify}, //nolint:gosec // the destination asks for it
			TLSHandshakeTimeout:    connectTimeout,
			ResponseHeaderTimeout:  Timeout,
			IdleConnTimeout:        idleTimeout,
			MaxResponseHeaderBytes: maxHeaders,
			MaxIdleConns:           maxIdleAll,
			MaxIdleConnsPerHost:    maxIdle,
			DisableCompression:     true, // an answer must not become larger than what is read of it
			ForceAttemptHTTP2:      true,
		},
		Timeout:       Timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// control judges addresses between the resolution of a name and the connection.
func control(judge func(netip.AddrPort) error) func(network, address string, conn syscall.RawConn) error {
	return func(_, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return ErrNotAllowed
		}
		return judge(plain(at))
	}
}

// safe returns what judges an address in its plain form.
func (o *Options) safe() func(netip.AddrPort) error {
	v4, v6 := split(o.Allowed)
	guardian := ssrf.New(ssrf.WithAnyPort(), ssrf.WithAllowedV4Prefixes(v4...), ssrf.WithAllowedV6Prefixes(v6...))
	safe := func(at netip.AddrPort) bool {
		return (o.Own == nil || !o.Own(at)) && !o.reserved(at.Addr()) && guardian.SafeAddrPort(at) == nil
	}
	return func(at netip.AddrPort) error {
		for _, in := range inner(at.Addr()) {
			if !safe(netip.AddrPortFrom(in, at.Port())) {
				return ErrNotAllowed
			}
		}
		// Of what the well-known translation reaches, the address in it says everything.
		if !nat64.Contains(at.Addr()) && !safe(at) {
			return ErrNotAllowed
		}
		return nil
	}
}

// named returns what judges an address to which a request in clear text goes.
func (o *Options) named() func(netip.AddrPort) error {
	safe := o.safe()
	v4, v6 := split(o.Allowed)
	networks := slices.Concat(v4, v6)
	return func(at netip.AddrPort) error {
		if err := safe(at); err != nil {
			return err
		}
		if !slices.ContainsFunc(networks, func(p netip.Prefix) bool { return p.Contains(at.Addr()) }) {
			return ErrPlain
		}
		return nil
	}
}

// split sorts networks by their family. IPv4 networks in IPv6 notation are IPv4 networks.
func split(networks []netip.Prefix) (v4, v6 []netip.Prefix) {
	for _, p := range networks {
		switch addr := p.Addr(); {
		case addr.Is4():
			v4 = append(v4, p)
		case addr.Is4In6() && p.Bits() >= 96:
			v4 = append(v4, netip.PrefixFrom(addr.Unmap(), p.Bits()-96))
		default:
			v6 = append(v6, p)
		}
	}
	return slices.Clip(v4), slices.Clip(v6)
}

// Do sends a request and returns the status and the header of the answer. Redirects are not
// followed. The body of the answer is read up to a bound and thrown away.
func (c *Client) Do(req *http.Request) (status int, header http.Header, err error) {
	client := &c.plain
	if req.URL.Scheme == "https" {
		client = &c.secure
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = resp.Body.Close() }() // nothing of it is used
	// A connection whose answer is read to its end can be used again. What is longer ends it.
	_, _ = io.CopyN(io.Discard, resp.Body, maxAnswer)
	return resp.StatusCode, resp.Header, nil
}

// Close closes idle connections.
func (c *Client) Close() {
	c.secure.CloseIdleConnections()
	c.plain.CloseIdleConnections()
}

// Reason says why a request failed, in one of a few fixed sentences: an error of the network names
// addresses and ports, which are nobody's business who merely chose a URL.
func Reason(err error) string {
	var (
		dns  *net.DNSError
		cert *tls.CertificateVerificationError
		slow interface{ Timeout() bool }
	)
	switch {
	case err == nil:
		return ""
	case errors.Is(err, ErrNotAllowed):
		return ErrNotAllowed.Error()
	case errors.Is(err, ErrPlain):
		return ErrPlain.Error()
	case errors.As(err, &cert):
		return "the certificate is not trusted"
	case errors.Is(err, http.ErrSchemeMismatch):
		return "the receiver does not speak TLS"
	case errors.As(err, &slow) && slow.Timeout(), errors.Is(err, context.DeadlineExceeded):
		return late
	case errors.As(err, &dns):
		return "the name of the receiver cannot be resolved"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "the connection was refused"
	}
	return broken
}

// The reasons of failures for which it may matter how large a request is.
const (
	late   = "the receiver did not answer in time"
	broken = "the connection failed"
)

// Broken reports whether a request failed because its connection broke, or no answer came in time: a smaller one
// may succeed. One for which there was never a connection says nothing of that.
func Broken(err error) bool {
	var dial *net.OpError
	if errors.As(err, new(*net.DNSError)) || errors.As(err, &dial) && dial.Op == "dial" {
		return false
	}
	switch Reason(err) {
	case late, broken:
		return true
	}
	return false
}

// Untrusted reports whether a request failed because the certificate of the receiver is not
// trusted, which another attempt does not change.
func Untrusted(err error) bool {
	return errors.As(err, new(*tls.CertificateVerificationError))
}
