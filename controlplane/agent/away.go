package agent

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	rpc "google.golang.org/grpc/status"

	"github.com/meshgate/meshgate/controlplane/enrol"
	"github.com/meshgate/meshgate/controlplane/health"
	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/xds/pemtext"
)

// meanwhile is the part of a text that says what works without the control plane.
const meanwhile = "A proxy that has its configuration goes on with it; the condition token_checks says whether tokens are still checked"

// report notes why the control plane could not be reached, or with nil that it was reached.
func (a *Agent) report(err error) {
	if err == nil {
		a.reached.Store(true)
		a.processes.again()
		a.conditions.Good(conditionControlPlane)
		a.lost.Store(nil)
		a.conditions.Good(conditionTokenChecks)
		return
	}
	if code := rpc.Code(err); a.Certificate != nil && code == codes.Unauthenticated {
		a.askedToRenew() // the certificate may be good for another token
	}
	a.conditions.Set(conditionControlPlane, a.away(err))
	now := time.Now()
	a.lost.CompareAndSwap(nil, &now)
	a.watchTokenChecks(context.Background()) // checked here because nobody may request the conditions
}

// away says why the control plane cannot be reached, and what the operator can do.
func (a *Agent) away(err error) health.Finding {
	f := a.awayCause(err)
	f.State = health.Degraded
	end := ". "
	if strings.HasSuffix(f.Text, "?") {
		end = " "
	}
	f.Text = f.Text + end + meanwhile
	return f
}

func (a *Agent) awayCause(err error) health.Finding {
	if code := rpc.Code(err); code == codes.Unavailable || code == codes.DeadlineExceeded {
		// gRPC passes on only the text of an error below it.
		if cause := a.transport.get(); cause != nil {
			err = cause
		}
	}
	found := func(reason, format string, args ...any) health.Finding {
		return health.Finding{Reason: reason, Text: fmt.Sprintf(format, args...)}
	}
	if e, ok := errors.AsType[*tokenError](err); ok {
		return found(e.reason, "%s", e.Error())
	}
	if e, ok := errors.AsType[*enrol.Refused](err); ok {
		return found("turned_down", "%v", a.tokenRead(e))
	}
	if e, ok := errors.AsType[*enrol.Unavailable](err); ok {
		return found("unavailable", "%v", e)
	}
	if s, ok := rpc.FromError(err); ok && (s.Code() == codes.Unauthenticated || s.Code() == codes.PermissionDenied) {
		if a.Certificate != nil {
			return found("turned_down", "the control plane %s refuses this gateway: %s. %s", a.Address, s.Message(), a.proof())
		}
		return found("turned_down", "the control plane %s refuses the token of %s: %s. Put a good one there, it is read again for each attempt", a.Address, a.TokenFile, s.Message())
	}
	if errors.Is(err, contract.ErrNotDataPlane) {
		return found("another_server", "at %s there is a server of the right authority, but not the data-plane server: --cp-address must have the control plane's dataPlane.port (5678 unless set otherwise)", a.Address)
	}
	switch reason := health.Unreachable(err); reason {
	case health.UnknownHost:
		return found(reason, "the name in --cp-address %s is not known: correct it, or the DNS (%v)", a.Address, err)
	case health.Refused:
		return found(reason, "nothing listens at --cp-address %s: start the control plane, or correct the address (%v)", a.Address, err)
	case health.UnknownAuthority:
		return found(reason, "the certificate of %s is from an authority that %s. Copy ca.pem of the state directory of that very control plane to --ca-cert-file, or correct --cp-address", a.Address, a.trustedInstead())
	case health.WrongName:
		var wrong x509.HostnameError
		errors.As(err, &wrong)
		return found(reason, "the certificate of %s is for %s, not for %s: start the control plane with --data-plane-names %[3]s (dataPlane.names), or use one of its names in --cp-address", a.Address, names(wrong.Certificate), wrong.Host)
	case health.ServerExpired:
		return found(reason, "the certificate of %s is not good at this time (%v). If the clock of this machine is right, look at that of the control plane, and at its /ready", a.Address, err)
	case health.NoTLS:
		return found(reason, "what listens at %s does not speak TLS: --cp-address must have the control plane's dataPlane.port (5678 unless set otherwise)", a.Address)
	case health.Timeout:
		return found(reason, "%s does not answer in time: is there a firewall between, or is the control plane stopped or overloaded?", a.Address)
	case health.HangsUp:
		return found(reason, "%s ends connections at once: is it the control plane, and is it starting or stopping? (%v)", a.Address, err)
	}
	return found("failed", "%s cannot be used: %v", a.Address, err)
}

// names lists the names of a certificate.
func names(c *x509.Certificate) string {
	if c == nil {
		return "other names"
	}
	list := append([]string{}, c.DNSNames...)
	for _, ip := range c.IPAddresses {
		list = append(list, ip.String())
	}
	if len(list) == 0 {
		return "no name"
	}
	return strings.Join(list, ", ")
}

// trustedInstead says which authorities are trusted when the control plane's authority is
// not.
func (a *Agent) trustedInstead() string {
	text, learned, err := a.trust.trusted()
	switch {
	case err != nil:
		return fmt.Sprintf("--ca-cert-file %s does not have: %v", a.CAFile, err)
	case learned:
		return fmt.Sprintf("this proxy does not trust. After it was given --ca-cert-file %s, its control plane told it to trust others (%s): it trusts %s", a.CAFile, a.trust.learned, fingerprints(text))
	}
	return fmt.Sprintf("--ca-cert-file %s does not have. That file has %s", a.CAFile, fingerprints(text))
}

// fingerprints formats certificates as openssl x509 -fingerprint -sha256 does.
func fingerprints(text []byte) string {
	var list []string
	for block := range pemtext.Blocks(text) {
		sum := sha256.Sum256(block.Bytes)
		list = append(list, strings.ReplaceAll(fmt.Sprintf("% X", sum), " ", ":"))
	}
	return "the SHA-256 fingerprint " + strings.Join(list, " and ")
}

// transport remembers why the last connection of the relay could not be made.
type transport struct {
	mu  sync.Mutex
	err error
}

func (t *transport) set(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.err = err
}

func (t *transport) get() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}

// dial opens connections for gRPC.
func (t *transport) dial(ctx context.Context, address string) (net.Conn, error) {
	t.set(nil)
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		t.set(err)
	}
	return conn, err
}

// noted are credentials whose failures are remembered.
type noted struct {
	credentials.TransportCredentials
	to *transport
}

// ClientHandshake implements credentials.TransportCredentials.
func (n noted) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := n.TransportCredentials.ClientHandshake(ctx, authority, raw)
	if err != nil {
		n.to.set(err)
	}
	return conn, info, err
}

// Clone implements credentials.TransportCredentials.
func (n noted) Clone() credentials.TransportCredentials {
	return noted{n.TransportCredentials.Clone(), n.to}
}

// tokenError describes what is wrong with a token file.
type tokenError struct{ reason, text string }

// Error implements error.
func (e *tokenError) Error() string { return e.text }

// readToken reads a token from its file. It refuses a text that does not have the form of a
// token, so that such a text is never sent.
func readToken(path string) (string, error) {
	b, err := os.ReadFile(path) //nolint:gosec // the operator names the file
	if err != nil {
		return "", fmt.Errorf("node token: %w", err)
	}
	token := strings.TrimSpace(string(b))
	switch {
	case token == "":
		return "", &tokenError{"token_empty", "the token file " + path + " is empty: put a token of the control plane there"}
	case !isToken(token):
		return "", &tokenError{"token_garbage", "what the token file " + path + " holds is not a token: put one of the control plane there"}
	}
	return token, nil
}

// isToken reports whether a text has the form of a token (RFC 7519): three parts and no
// white space.
func isToken(text string) bool {
	return strings.Count(text, ".") == 2 && !strings.ContainsAny(text, " \t\r\n")
}

// client returns an HTTP client for the control plane. It does not follow redirects: the
// control plane could otherwise send requests to any service that listens on this machine.
func (a *Agent) client() *http.Client {
	over := &http.Transport{TLSClientConfig: a.tls.Clone(), DisableKeepAlives: true}
	if a.Certificate != nil {
		a.Certificate.show(over.TLSClientConfig)
	}
	return &http.Client{
		Timeout: askControlPlane, Transport: dated{over, a.heardClock},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}
