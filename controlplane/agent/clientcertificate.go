package agent

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/meshgate/meshgate/controlplane/enrol"
	"github.com/meshgate/meshgate/controlplane/health"
	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/xds/pemtext"
)

// ClientCertificate names the files of the certificate by which a gateway gets its tokens, and of its
// key. They are read again for each token, so they may be replaced while the gateway runs.
type ClientCertificate struct{ CertFile, KeyFile string }

// load reads the certificate and its key.
func (c *ClientCertificate) load() (*tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
	if err != nil {
		return nil, &tokenError{"certificate_unusable", fmt.Sprintf("the client certificate in %s and its key in %s cannot be used: %v", c.CertFile, c.KeyFile, err)}
	}
	return &pair, nil
}

// leaf returns the certificate alone.
func (c *ClientCertificate) leaf() (*x509.Certificate, error) {
	text, err := os.ReadFile(c.CertFile)
	if err != nil {
		return nil, err
	}
	return pemtext.Leaf(text)
}

// show makes connections show the certificate and prove its key.
func (c *ClientCertificate) show(by *tls.Config) *tls.Config {
	by.NextProtos = []string{contract.ProtocolCertificate, "http/1.1"}
	by.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return c.load() }
	return by
}

// issued reports whether a token was issued by the certificate that the files hold now.
func (c *ClientCertificate) issued(token string) bool {
	cert, err := c.leaf()
	return err == nil && claimsOf(token).Certificate == pemtext.Fingerprint(cert.Raw)
}

// claims are what a gateway reads from its token. The control plane verifies it.
type claims struct {
	ControlPlane string `json:"ControlPlane"`
	Certificate  string `json:"Certificate"`
}

// claimsOf reads the claims of a token; they are empty if it cannot be read.
func claimsOf(token string) (c claims) {
	if parts := strings.Split(token, "."); len(parts) == 3 {
		raw, _ := base64.RawURLEncoding.DecodeString(parts[1])
		_ = json.Unmarshal(raw, &c)
	}
	return c
}

// useCertificate prepares an agent that has a client certificate instead of a token. The token that it
// gets is kept in the run directory. The scope of its control plane is known by that only.
func (a *Agent) useCertificate() error {
	if a.Certificate == nil {
		return nil
	}
	if a.Sidecar != nil {
		return errors.New("client certificates are for gateways: proxies of meshes and zones have tokens")
	}
	if _, err := a.Certificate.load(); err != nil {
		return err
	}
	a.TokenFile = a.dir.token
	if token, err := a.token(); err == nil && a.Certificate.issued(token) {
		a.ControlPlane, a.settled = claimsOf(token).ControlPlane, true
	}
	return nil
}

// certify gets a new token by the client certificate, if the agent has one.
func (a *Agent) certify(ctx context.Context) error {
	if a.Certificate == nil {
		return nil
	}
	a.certifying.Lock()
	defer a.certifying.Unlock()
	token, err := a.certified(ctx)
	if err == nil {
		err = replace(a.TokenFile, []byte(token))
	}
	return err
}

// certified asks for a token by the client certificate. Before the first one it is not known which
// node this is.
func (a *Agent) certified(ctx context.Context) (string, error) {
	if _, err := a.Certificate.load(); err != nil {
		return "", err
	}
	named := a.Named
	if a.running {
		named = a.ControlPlane // which may have another name now, and somebody else its name
	}
	token, err := enrol.Certify(ctx, a.client(), a.Address, a.NodeID(), named)
	if err != nil {
		return "", err
	}
	scope := claimsOf(token).ControlPlane
	switch {
	case !isToken(token) || scope == "":
		return "", errors.New("the control plane's answer is not a token")
	case a.running && scope != a.ControlPlane:
		return "", &enrol.Refused{Status: http.StatusForbidden, Text: "the client certificate is of another control plane now: start the gateway again"}
	case !a.running:
		a.ControlPlane, a.settled = scope, true
		a.link.Node = a.NodeID()
	}
	return token, nil
}

// proof says where what the control plane refuses comes from, and what to do.
func (a *Agent) proof() string {
	if a.Certificate != nil {
		return "The client certificate is read from " + a.Certificate.CertFile + ": its control plane or group must list it (dp-client-certificates)"
	}
	return "The token is read from " + a.TokenFile
}

// ownCertificate lists the client certificate among those that end.
func (a *Agent) ownCertificate() []health.Certificate {
	if a.Certificate == nil {
		return nil
	}
	cert, err := a.Certificate.leaf()
	if err != nil {
		return nil // the next token reports the error
	}
	return []health.Certificate{{
		What: "the client certificate in " + a.Certificate.CertFile, NotBefore: cert.NotBefore, NotAfter: cert.NotAfter,
		Do: "list a new one at the control plane or group (dp-client-certificates), and put it and its key in the place of the old ones: nothing needs a restart. After the end the control plane lets this gateway in no more",
	}}
}
