package identity

import (
	"crypto/x509"
	"strings"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/identity/identitytest"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/xds/pemtext"
)

// pins are listed certificates: at which control planes which fingerprints are.
type pins map[[2]string]bool

func (p pins) find(_ store.Reader, controlPlane, fingerprint string) error {
	if p[[2]string{controlPlane, fingerprint}] {
		return nil
	}
	return fault.New(fault.NotFound, "none")
}

// TestCertified: a token by a client certificate is one of the control plane that lists it, ends with
// it, has the same id each time, and counts no longer than the certificate is listed there.
func TestCertified(t *testing.T) {
	clock := identitytest.NewClock()
	tokens := openTokens(t, clock)
	now := clock.Now()
	cert := identitytest.SelfSigned(t, now.Add(-time.Hour), now.Add(time.Hour)).Leaf
	fingerprint := pemtext.Fingerprint(cert.Raw)
	if _, _, err := tokens.Certified(t.Context(), cert, "team", "gw"); !fault.Is(err, fault.Denied) {
		t.Errorf("without a way to find certificates: %v", err)
	}
	here, elsewhere := [2]string{"team", fingerprint}, [2]string{"shop", fingerprint}
	listed := pins{here: true}
	tokens.Pinned = listed.find
	token, _, err := tokens.Certified(t.Context(), cert, "team", "gw")
	if err != nil {
		t.Fatal(err)
	}
	c, err := tokens.Check(t.Context(), token)
	if err != nil || c.NodeID() != "cp/team/gw" || !c.ExpiresAt.Equal(cert.NotAfter) || c.Certificate != fingerprint {
		t.Fatalf("%+v, %v", c, err)
	}
	again, other, err := tokens.Certified(t.Context(), cert, "team", "gw")
	if err != nil || other.ID != c.ID {
		t.Errorf("%q after %q, %v", other.ID, c.ID, err)
	}
	if _, second, err := tokens.Certified(t.Context(), cert, "team", "gx"); err != nil || second.ID == c.ID {
		t.Errorf("two nodes share an id: %v", err)
	}
	next := identitytest.SelfSigned(t, now.Add(-time.Hour), now.Add(time.Hour)).Leaf
	listed[[2]string{"team", pemtext.Fingerprint(next.Raw)}] = true
	if _, other, err := tokens.Certified(t.Context(), next, "team", "gw"); err != nil || other.ID == c.ID {
		t.Errorf("two certificates of a node share an id, so a revocation of one is of both: %v", err)
	}
	if _, err := tokens.Renew(t.Context(), again); !fault.Is(err, fault.Denied) {
		t.Errorf("renewed without the certificate: %v", err)
	}
	if _, _, err := tokens.Certified(t.Context(), cert, "team", "a/b"); !fault.Is(err, fault.Invalid) {
		t.Errorf("%v", err)
	}
	for when, change := range map[string]func(){
		"listed elsewhere":  func() { delete(listed, here); listed[elsewhere] = true },
		"listed no more":    func() { delete(listed, here) },
		"no way to find it": func() { tokens.Pinned = nil },
	} {
		change()
		if _, err := tokens.Check(t.Context(), token); !fault.Is(err, fault.Denied) || !strings.Contains(err.Error(), "client certificate") || !Proves(err, "cp/team/gw") {
			t.Errorf("%s: %v", when, err)
		}
		delete(listed, elsewhere)
		listed[here], tokens.Pinned = true, listed.find
	}
	listed[elsewhere] = true
	if _, err := tokens.Check(t.Context(), token); err != nil {
		t.Errorf("listed by somebody else, too: %v", err)
	}
	if _, other, err := tokens.Certified(t.Context(), cert, "shop", "gw"); err != nil || other.NodeID() != "cp/shop/gw" || other.ID == c.ID {
		t.Errorf("at the other control plane it is %+v, %v", other, err)
	}
	if _, err := tokens.Check(t.Context(), token); err != nil {
		t.Errorf("listed again: %v", err)
	}
	_, err = tokens.store.Update(t.Context(), model.Config, func(tx store.Tx) error {
		_, err := tx.Create(&model.Resource{Kind: mesh.GlobalSecrets, Name: mesh.GatewayTokenRevocations, Spec: &mesh.Secret{Data: []byte(c.ID)}})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := tokens.Certified(t.Context(), cert, "team", "gw"); !fault.Is(err, fault.Denied) || !strings.Contains(err.Error(), "revoked") {
		t.Errorf("a revoked node gets a token: %v", err)
	}
}

// TestCertifiedInItsTime: a certificate out of its validity gets no token, and reads why.
func TestCertifiedInItsTime(t *testing.T) {
	clock := identitytest.NewClock()
	tokens := openTokens(t, clock)
	from := clock.Now().Add(time.Minute).Truncate(time.Second)
	cert := identitytest.SelfSigned(t, from, from.Add(time.Hour)).Leaf
	tokens.Pinned = pins{{"team", pemtext.Fingerprint(cert.Raw)}: true}.find
	for _, after := range []struct {
		pass time.Duration
		good bool
	}{{0, false}, {2 * time.Minute, true}, {2 * time.Hour, false}} {
		clock.Advance(after.pass)
		_, _, err := tokens.Certified(t.Context(), cert, "team", "gw")
		if (err == nil) != after.good || err != nil && (!fault.Is(err, fault.Denied) || !strings.Contains(err.Error(), "is good from "+from.UTC().Format(time.RFC3339))) {
			t.Errorf("after %s: %v", after.pass, err)
		}
	}
}

// TestShows: a token and a client certificate belong together, or neither counts.
func TestShows(t *testing.T) {
	now := time.Now()
	cert, other := identitytest.SelfSigned(t, now, now.Add(time.Hour)).Leaf, identitytest.SelfSigned(t, now, now.Add(time.Hour)).Leaf
	plain, bound := &Claims{}, &Claims{Certificate: pemtext.Fingerprint(cert.Raw)}
	for _, test := range []struct {
		name string
		c    *Claims
		cert *x509.Certificate
		good bool
	}{
		{"a token", plain, nil, true}, {"a token and its certificate", bound, cert, true},
		{"a token and a certificate", plain, cert, false}, {"a token without its certificate", bound, nil, false}, {"a token and another certificate", bound, other, false},
	} {
		if err := test.c.Shows(test.cert); (err == nil) != test.good || err != nil && !fault.Is(err, fault.Denied) {
			t.Errorf("%s: %v", test.name, err)
		}
	}
}
