package identity

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/identity/identitytest"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/storetest"
)

// compromised is part of the refusal of a token of a withdrawn key.
const compromised = "because it is compromised: the node needs a new token"

// refusedAs demands that a token was refused, with a text in the reason.
func refusedAs(t *testing.T, what string, err error, text string) {
	t.Helper()
	if !fault.Is(err, fault.Denied) || !strings.Contains(err.Error(), text) {
		t.Errorf("%s: %v, want a refusal with %q", what, err, text)
	}
}

// TestNodeKeysWithdraw: a thief of a key has forged tokens, exchanged one of them under the
// next key, and goes on forging. One step ends all of this. A restart and a second
// withdrawal find the same state.
func TestNodeKeysWithdraw(t *testing.T) {
	s := identitytest.Memory(t)
	tokens := reopened(t, s)
	gate := keyGate(s)
	forge := func(key *nodeKey) string {
		c := Claims{RegisteredClaims: jwt.RegisteredClaims{ID: "x", ExpiresAt: jwt.NewNumericDate(time.Now().Add(100 * 365 * 24 * time.Hour))}, Name: "gw", ControlPlane: "default", Type: typeGateway}
		return sign(t, jwt.SigningMethodRS256, key.serial, key.key, c)
	}
	stolen := tokens.keys.Load().newest()
	if _, err := tokens.Rotate(t.Context(), gate); err != nil {
		t.Fatal(err)
	}
	laundered, err := tokens.Renew(t.Context(), forge(&stolen))
	if err != nil || KeyID(laundered) != "2" {
		t.Fatalf("a token of key %s, %v", KeyID(laundered), err)
	}
	out, err := tokens.Withdraw(t.Context(), gate)
	if err != nil || out.Serial != "3" || !slices.Equal(out.Withdrawn, []string{"1", "2"}) {
		t.Fatalf("%+v, %v", out, err)
	}
	good, err := tokens.Gateway("default", "gw", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	expired := sign(t, jwt.SigningMethodRS256, "1", stolen.key, Claims{RegisteredClaims: jwt.RegisteredClaims{ExpiresAt: jwt.NewNumericDate(time.Now().Add(-time.Hour))}})
	madeUp := sign(t, jwt.SigningMethodRS256, "1", signingKeys()[0], Claims{RegisteredClaims: jwt.RegisteredClaims{ExpiresAt: jwt.NewNumericDate(time.Now().Add(time.Hour))}})
	for name, tokens := range map[string]*Tokens{"this process": tokens, "the next one": reopened(t, s)} {
		for what, token := range map[string]string{"forged": forge(&stolen), "laundered": laundered, "expired": expired} {
			_, err := tokens.Check(t.Context(), token)
			refusedAs(t, name+", "+what, err, compromised)
			_, err = tokens.Renew(t.Context(), token)
			refusedAs(t, name+", "+what+", exchanged", err, compromised)
		}
		// A serial alone must not reveal that its key was compromised.
		_, err := tokens.Check(t.Context(), madeUp)
		refusedAs(t, name+", made up", err, "was signed by a key that this control plane does not know")
		if _, err := tokens.Check(t.Context(), good); err != nil {
			t.Errorf("%s: a token of the new key: %v", name, err)
		}
		if keys := tokens.Keys(); len(keys) != 3 || !keys[0].Withdrawn || !keys[1].Withdrawn || keys[2].Serial != "3" || !keys[2].Signs || keys[2].Withdrawn {
			t.Errorf("%s: keys %+v", name, keys)
		}
	}
	// The withdrawn keys leave nothing that could sign.
	if err := s.View(t.Context(), func(r store.Reader) error {
		all, err := r.List(Keys, store.Query{Part: "gateway-token-"})
		for _, res := range all {
			if private := strings.Contains(string(res.Spec.(*KeyPair).Key), "PRIVATE"); private != (res.Name == keyTokens+"3") {
				t.Errorf("%s is private: %t", res.Name, private)
			}
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if err := tokens.Delete(t.Context(), gate, "1", anyway); !fault.Is(err, fault.NotFound) {
		t.Errorf("a withdrawn key was deleted: %v", err)
	}
	if out, err = tokens.Withdraw(t.Context(), gate); err != nil || out.Serial != "4" || !slices.Equal(out.Withdrawn, []string{"3"}) {
		t.Errorf("%+v, %v", out, err)
	}
}

// TestDataplaneKeysWithdraw does the same for the proxies of a mesh. Other meshes are not
// affected.
func TestDataplaneKeysWithdraw(t *testing.T) {
	tt := newTokenTest(t)
	gate := keyGate(tt.store)
	forged := func() string { return sign(t, jwt.SigningMethodRS256, "1", signingKeys()[0], dataplaneClaims()) }
	if _, err := tt.Rotate(t.Context(), gate, "m"); err != nil {
		t.Fatal(err)
	}
	laundered, err := tt.Exchange(t.Context(), forged())
	if err != nil || KeyID(laundered) != "2" {
		t.Fatalf("a token of key %s, %v", KeyID(laundered), err)
	}
	other := tt.issue(DataplaneTokenRequest{Mesh: "other"})
	tt.key("m", "3", []byte("no key"))
	out, err := tt.Withdraw(t.Context(), gate, "m")
	if err != nil || out.Serial != "4" || !slices.Equal(out.Withdrawn, []string{"1", "2", "3"}) {
		t.Fatalf("%+v, %v", out, err)
	}
	for what, token := range map[string]string{"forged": forged(), "laundered": laundered} {
		refusedAs(t, what, tt.authenticate("m.web", token), compromised)
		_, err := tt.Exchange(t.Context(), token)
		refusedAs(t, what+", exchanged", err, compromised)
	}
	const unknown = "was signed by a key that this control plane does not know"
	refusedAs(t, "made up", tt.authenticate("m.web", sign(t, jwt.SigningMethodRS256, "1", signingKeys()[1], dataplaneClaims())), unknown)
	refusedAs(t, "of the key that was none", tt.authenticate("m.web", sign(t, jwt.SigningMethodRS256, "3", signingKeys()[1], dataplaneClaims())), unknown)
	for node, token := range map[string]string{"m.web": tt.issue(DataplaneTokenRequest{Mesh: "m"}), "other.web": other} {
		if err := tt.authenticate(node, token); err != nil {
			t.Errorf("%s: %v", node, err)
		}
	}
	if len(tt.parsed) != 2 {
		t.Errorf("%d private keys are kept in memory", len(tt.parsed))
	}
	if _, err := tt.Withdraw(t.Context(), gate, "none"); !fault.Is(err, fault.NotFound) {
		t.Errorf("a mesh that does not exist: %v", err)
	}
}

// TestWithdrawnKeyStaysWithdrawn: a compromised key that is written again, from a file or an
// old backup, neither counts nor signs, and its serial is given to no other key.
func TestWithdrawnKeyStaysWithdrawn(t *testing.T) {
	tt := newTokenTest(t)
	gate := keyGate(tt.store)
	forged := sign(t, jwt.SigningMethodRS256, "1", signingKeys()[0], dataplaneClaims())
	if _, err := tt.Withdraw(t.Context(), gate, "m"); err != nil {
		t.Fatal(err)
	}
	tt.key("m", "1", pkcs1(signingKeys()[0]))
	refusedAs(t, "the key is there again", tt.authenticate("m.web", forged), compromised)
	tt.removeKey("m", "2")
	if _, err := tt.Issue(t.Context(), DataplaneTokenRequest{Mesh: "m"}); !fault.Is(err, fault.NotFound) {
		t.Errorf("the withdrawn key signs: %v", err)
	}
	if serial, err := tt.Rotate(t.Context(), gate, "m"); err != nil || serial != "2" {
		t.Errorf("key %s, %v", serial, err)
	}
	// It may be deleted again, because it does not count.
	if err := tt.store.View(t.Context(), func(r store.Reader) error {
		res, err := r.Get(mesh.Secrets, "m", mesh.TokenSigningKey+"m-1")
		if err != nil {
			return err
		}
		return NewUses(tt.clock.Now).MayRemove(r, res)
	}); err != nil {
		t.Error(err)
	}
}

// between is a store in which something happens after each view.
type between struct {
	store.Store
	then func()
}

func (b *between) View(ctx context.Context, fn func(store.Reader) error) error {
	err := b.Store.View(ctx, fn)
	if then := b.then; then != nil {
		b.then = nil
		then()
	}
	return err
}

// TestExchangeAgainstWithdrawal: a token that is judged before its key is withdrawn, and
// answered afterwards, is not exchanged for one of the new key.
func TestExchangeAgainstWithdrawal(t *testing.T) {
	s := &between{Store: identitytest.Memory(t)}
	tt := tokenTestOn(t, s)
	gate := keyGate(s.Store)
	forged := tt.issue(DataplaneTokenRequest{Mesh: "m"})
	s.then = func() {
		if _, err := tt.Rotate(context.Background(), gate, "m"); err != nil {
			t.Error(err)
		}
		storetest.Place(t, s.Store, mesh.Secrets, "m", mesh.TokenSigningKey+"m-1", nil)
	}
	if got, err := tt.Exchange(t.Context(), forged); err == nil && tt.authenticate("m.web", got) == nil {
		t.Errorf("a good token of key %s", KeyID(got))
	}

	tokens := reopened(t, s)
	gateway, err := tokens.Gateway("default", "gw", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	s.then = func() {
		if _, err := tokens.Rotate(context.Background(), gate); err != nil {
			t.Error(err)
		}
		if err := tokens.Delete(context.Background(), gate, "1", anyway); err != nil {
			t.Error(err)
		}
	}
	if got, err := tokens.Renew(t.Context(), gateway); err == nil {
		if _, err = tokens.Check(t.Context(), got); err == nil {
			t.Errorf("a good token of key %s", KeyID(got))
		}
	}
}

// TestClaimsGateway tells which refusal a client gets.
func TestClaimsGateway(t *testing.T) {
	s := identitytest.Memory(t)
	gateway, err := reopened(t, s).Gateway("default", "gw", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	proxy := tokenTestOn(t, s).issue(DataplaneTokenRequest{Mesh: "m"})
	for token, want := range map[string]bool{gateway: true, "Bearer " + gateway: true, proxy: false, "x": false, "": false} {
		if ClaimsGateway(token) != want {
			t.Errorf("%q: %t", token, !want)
		}
	}
}
