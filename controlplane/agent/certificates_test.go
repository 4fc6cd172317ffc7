package agent

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/proto"

	"github.com/meshgate/meshgate/controlplane/health"
	"github.com/meshgate/meshgate/xds/resource"
)

// secretUntil returns a secret for Envoy with a certificate that expires at a given time.
func secretUntil(t *testing.T, name string, end time.Time) *resource.Resource {
	t.Helper()
	p := newPlace(t)
	cert := &x509.Certificate{SerialNumber: p.authority.SerialNumber, NotBefore: end.Add(-24 * time.Hour), NotAfter: end}
	der, err := x509.CreateCertificate(nil, cert, p.authority, p.key.Public(), p.key)
	if err != nil {
		t.Fatal(err)
	}
	body, err := proto.Marshal(&tlsv3.Secret{Name: name, Type: &tlsv3.Secret_TlsCertificate{TlsCertificate: &tlsv3.TlsCertificate{
		CertificateChain: &corev3.DataSource{Specifier: &corev3.DataSource_InlineBytes{InlineBytes: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	return resource.New(resource.Secret, name, body)
}

// TestCertificates: Envoy's certificates and the control plane's authorities are checked
// when they change and when they near their end.
func TestCertificates(t *testing.T) {
	p := newPlace(t)
	p.address = "https://127.0.0.1:1"
	a, r := p.agent(t, someToken)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		a.watchCertificates(ctx)
	}()
	garbage := resource.New(resource.Secret, "garbage", []byte("garbage"))
	a.held.set([]*resource.Resource{garbage, secretUntil(t, "old", time.Now().Add(-time.Hour))})
	if l := r.wait(t, "a certificate ends"); !strings.Contains(l, "the certificate old of this proxy expired at ") || !strings.Contains(l, "reason=expired") {
		t.Error(l)
	}
	a.held.set([]*resource.Resource{secretUntil(t, "fresh", time.Now().Add(20*time.Hour))})
	r.wait(t, "no certificate ends soon")
	a.held.set([]*resource.Resource{secretUntil(t, "external_client:secret:bank:1", time.Now().Add(time.Hour))})
	if list := a.held.all(); len(list) != 1 || list[0].What != "the certificate that this proxy presents to ExternalService bank" || !strings.HasPrefix(list[0].Do, "replace clientCert") {
		t.Errorf("%+v", list)
	}
	r.wait(t, "reason=ends_soon")
	a.held.set([]*resource.Resource{secretUntil(t, "brief", time.Now().Add(5*time.Second))})
	r.wait(t, "reason=expired") // without a further event
	cancel()
	<-ended
	if list := a.authorities(); len(list) != 1 || list[0].What != "the authority in --ca-cert-file "+p.ca {
		t.Errorf("%+v", list)
	}
}

// TestFullDisk: a proxy that has run before starts on a full disk, because the files that
// it would write exist already. What cannot be stored is reported once.
func TestFullDisk(t *testing.T) {
	cp := newControlPlane(t)
	o, r := cp.options(t, "gw")
	o.StateDir = shortDir(t)
	if err := syscall.Mount("tmpfs", o.StateDir, "tmpfs", 0, "size=256k"); err != nil {
		t.Skipf("a small file system cannot be mounted here, which needs root: %v", err)
	}
	defer func() {
		if err := syscall.Unmount(o.StateDir, 0); err != nil {
			t.Error(err)
		}
	}()
	a := newAgent(t, o)
	if _, err := a.enrolFirst(t.Context()); err != nil {
		t.Fatal(err)
	}
	ballast := filepath.Join(o.StateDir, "ballast")
	_ = os.WriteFile(ballast, make([]byte, 1<<20), 0o600) // as much as there is room for
	again := newAgent(t, o)
	if _, err := again.enrolFirst(t.Context()); err != nil {
		t.Errorf("on a full disk: %v", err)
	}
	if _, err := again.processes.begin(); err == nil { // docs/operations/troubleshooting.md says so
		t.Error("an Envoy was noted on a full disk")
	}
	failed := replace(a.dir.cache, make([]byte, 8<<10))
	for range 10 {
		a.saved(failed)
	}
	c := a.conditions.Get(conditionDisk)
	if failed == nil || c.Reason != "disk_full" || c.State != health.Degraded || !strings.Contains(c.Text, a.dir.path) {
		t.Errorf("%v: %+v", failed, c)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	a.saved(replace(a.dir.cache, make([]byte, 8<<10)))
	if c := a.conditions.Get(conditionDisk); c.State != health.OK {
		t.Errorf("%+v", c)
	}
	lines := 0
	for _, l := range r.all() {
		if strings.Contains(l, "condition=disk") {
			lines++
		}
	}
	if lines != 2 {
		t.Errorf("%d lines", lines)
	}
}

// TestTrustedAuthoritiesAreJudged: the authorities that the control plane has named since
// the operator's file was given are the ones that count. A replaced authority causes no
// alarm once the node has heard of the next one, without a restart. The text that says why
// the control plane is not trusted shows the authorities in force.
func TestTrustedAuthoritiesAreJudged(t *testing.T) {
	old, next := newPlace(t), newPlace(t)
	ended := &x509.Certificate{SerialNumber: old.authority.SerialNumber, NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: time.Now().Add(-time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(nil, ended, ended, old.key.Public(), old.key)
	if err != nil {
		t.Fatal(err)
	}
	given := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	if err := os.WriteFile(old.ca, given, 0o600); err != nil {
		t.Fatal(err)
	}
	next.serve(t, http.NotFound, nil)
	old.address = next.address
	a, r := old.agent(t, someToken)
	ctx, cancel := context.WithCancel(t.Context())
	looked := make(chan struct{})
	go func() {
		defer close(looked)
		a.watchCertificates(ctx)
	}()
	if l := r.wait(t, "a certificate ends"); !strings.Contains(l, "the authority in --ca-cert-file "+old.ca) || !strings.Contains(l, "nothing needs a restart") {
		t.Error(l)
	}
	conn, err := tls.Dial("tcp", strings.TrimPrefix(next.address, "https://"), &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	bundle, err := os.ReadFile(next.ca)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.trust.learn(bundle, conn.ConnectionState()); err != nil {
		t.Fatal(err)
	}
	r.wait(t, "no certificate ends soon")
	cancel()
	<-looked
	if list := a.authorities(); len(list) != 1 || list[0].What != "the control plane's authority in "+a.trust.learned || !list[0].NotAfter.Equal(next.authority.NotAfter) {
		t.Errorf("%+v", list)
	}
	text := a.away(x509.UnknownAuthorityError{}).Text
	for text, want := range map[string]bool{old.ca: true, a.trust.learned: true, fingerprints(bundle): true, fingerprints(given): false} {
		if got := a.away(x509.UnknownAuthorityError{}).Text; strings.Contains(got, text) != want {
			t.Errorf("%s in %s: %t", text, got, !want)
		}
	}
	// Another operator's file starts anew.
	if err := os.WriteFile(old.ca, append(given, '\n'), 0o600); err != nil {
		t.Fatal(err)
	}
	if again := a.away(x509.UnknownAuthorityError{}).Text; again == text || !strings.Contains(again, "That file has "+fingerprints(given)) {
		t.Error(again)
	}
}
