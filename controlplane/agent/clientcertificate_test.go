package agent

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/admit/admittest"
	"github.com/meshgate/meshgate/controlplane/enrol"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/xds/pemtext"
)

// certificateOptions are options with a client certificate instead of a token. Which scopes list such is
// known by their fingerprints, and the scopes of control planes by what these are called.
func (cp *controlPlane) certificateOptions(t *testing.T, listed, planes map[string]string) (Options, *recorder) {
	t.Helper()
	cp.tokens.Pinned = func(_ store.Reader, scope, fingerprint string) error {
		if listed[fingerprint] == scope {
			return nil
		}
		return fault.New(fault.NotFound, "none")
	}
	cp.enrolment.Plane = func(_ context.Context, named string) (string, error) {
		if scope, ok := planes[named]; ok {
			return scope, nil
		}
		return "", fault.New(fault.NotFound, "there is no control plane %q", named)
	}
	cp.refuse.Store(new(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == enrol.RenewPath {
			cp.enrolment.Renew(w, r)
			return
		}
		cp.enrolment.ServeHTTP(w, r)
	})))
	o, r := cp.options(t, "gw")
	o.TokenFile, o.ControlPlane, o.Named = "", "team", "team"
	o.Certificate = &ClientCertificate{filepath.Join(o.StateDir, "client.pem"), filepath.Join(o.StateDir, "client.key")}
	return o, r
}

// changed writes a new client certificate and key, and returns the fingerprint.
func (c *ClientCertificate) changed(t *testing.T) string {
	t.Helper()
	cert, key := admittest.Certificate(t)
	for file, text := range map[string]string{c.CertFile: cert, c.KeyFile: key} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return pemtext.Fingerprint(pemtext.First([]byte(cert)).Bytes)
}

// TestClientCertificate: a gateway learns from the token that it gets by its certificate which node it is,
// and keeps that for a start without the control plane, but not for another certificate.
func TestClientCertificate(t *testing.T) {
	cp := newControlPlane(t)
	listed, planes := map[string]string{}, map[string]string{"team": "scope-1", "scope-1": "scope-1"}
	o, _ := cp.certificateOptions(t, listed, planes)
	first := o.Certificate.changed(t)
	listed[first] = "scope-1"
	a := newAgent(t, o)
	if enrolled, err := a.enrolFirst(t.Context()); err != nil || !enrolled {
		t.Fatal(enrolled, err)
	}
	token, err := a.token()
	if info, failed := os.Stat(a.dir.token); err != nil || failed != nil || info.Mode().Perm() != 0o600 {
		t.Fatal(err, failed, info)
	}
	settings, _ := os.ReadFile(a.dir.settings)
	if a.NodeID() != "cp/scope-1/gw" || a.link.Node != a.NodeID() || !strings.Contains(string(settings), a.dir.token) || claimsOf(token).Certificate != first {
		t.Errorf("the node is %s, linked as %s, with settings %s", a.NodeID(), a.link.Node, settings)
	}
	if again := newAgent(t, o); again.NodeID() != "cp/scope-1/gw" || !again.settled {
		t.Errorf("after a restart the node is %s", again.NodeID())
	}
	a.running = true
	planes["team"] = "scope-2" // the control plane has another name, and another one has its name
	if err := a.certify(t.Context()); err != nil {
		t.Errorf("the control plane has another name: %v", err)
	}
	planes["scope-1"], listed[first] = "scope-2", "scope-2"
	if err := a.certify(t.Context()); err == nil || !strings.Contains(err.Error(), "of another control plane now") {
		t.Errorf("the node changes while it runs: %v", err)
	}
	planes["scope-1"] = "scope-1"
	second := o.Certificate.changed(t)
	n := a.renewal()
	if due, err := n.due(token); err != nil || due.After(time.Now()) {
		t.Errorf("the token of the former certificate is due at %s: %v", due, err)
	}
	if again := newAgent(t, o); again.settled {
		t.Error("the token of the former certificate is believed")
	}
	listed[second] = "scope-1"
	if err := n.replaceToken(t.Context(), token); err != nil {
		t.Fatal(err)
	}
	if token, err = a.token(); err != nil || claimsOf(token).Certificate != second {
		t.Errorf("the token is of %q, %v", claimsOf(token).Certificate, err)
	}
	if due, err := n.due(token); err != nil || !due.After(time.Now()) {
		t.Errorf("the new token is due at %s: %v", due, err)
	}
	if list := a.ownCertificate(); len(list) != 1 || !strings.Contains(list[0].What, o.Certificate.CertFile) {
		t.Errorf("%+v", list)
	}
}

// TestClientCertificateRefused: what cannot be is said before anything is started, and what the control
// plane refuses at once, with the name of the file.
func TestClientCertificateRefused(t *testing.T) {
	cp := newControlPlane(t)
	o, _ := cp.certificateOptions(t, nil, nil)
	if _, err := New(o); err == nil || !strings.Contains(err.Error(), "client.pem") {
		t.Errorf("no files: %v", err)
	}
	o.Certificate.changed(t)
	a := newAgent(t, o)
	_, err := a.enrolFirst(t.Context())
	if _, refused := errors.AsType[*enrol.Refused](err); !refused || !strings.Contains(err.Error(), "does not list") || !strings.Contains(err.Error(), o.Certificate.CertFile) {
		t.Errorf("not listed: %v", err)
	}
	side := o
	side.Sidecar = &Sidecar{Mesh: "default"}
	if _, err := New(side); err == nil || !strings.Contains(err.Error(), "client certificates are for gateways") {
		t.Errorf("a sidecar: %v", err)
	}
	_, key := admittest.Certificate(t)
	if err := os.WriteFile(o.Certificate.KeyFile, []byte(key), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := New(o); err == nil || !strings.Contains(err.Error(), "does not match") || strings.Contains(err.Error(), "BEGIN") {
		t.Errorf("the key of another: %v", err)
	}
}
