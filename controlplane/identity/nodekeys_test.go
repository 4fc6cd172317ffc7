package identity

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/admit/admittest"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/identity/identitytest"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/storetest"
)

// keyGate returns the gate of a store.
func keyGate(s store.Store) *admit.Gate {
	return admit.New(s, &admittest.Revoker{}, append(Kinds(), mesh.Kinds()...), time.Now).As(model.System("test"))
}

func anyway(int) error { return nil }

// TestNodeKeysRotate: a new key signs at once, tokens of the old one stay good until it is
// deleted, and a restart finds the same keys.
func TestNodeKeysRotate(t *testing.T) {
	s := identitytest.Memory(t)
	tokens, err := OpenTokens(t.Context(), s, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	gate := keyGate(s)
	issue := func() string {
		token, err := tokens.Gateway("default", "gw", time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	old := issue()
	serial, err := tokens.Rotate(t.Context(), gate)
	if err != nil || serial != "2" || tokens.Newest() != "2" {
		t.Fatalf("rotated to %q, %v", serial, err)
	}
	next, err := tokens.Renew(t.Context(), old)
	if err != nil || KeyID(old) != "1" || KeyID(next) != "2" {
		t.Fatalf("a token of key %s became one of key %s: %v", KeyID(old), KeyID(next), err)
	}
	refused := errors.New("in use")
	if err := tokens.Delete(t.Context(), gate, "1", func(n int) error { return refused }); !errors.Is(err, refused) {
		t.Errorf("deleted although refused: %v", err)
	}
	if _, err := tokens.Check(t.Context(), old); err != nil {
		t.Errorf("a token of the old key: %v", err)
	}
	if err := tokens.Delete(t.Context(), gate, "1", anyway); err != nil {
		t.Fatal(err)
	}
	if err := tokens.Delete(t.Context(), gate, "1", anyway); !fault.Is(err, fault.NotFound) {
		t.Errorf("deleted twice: %v", err)
	}
	for name, tokens := range map[string]*Tokens{"this process": tokens, "the next one": reopened(t, s)} {
		if _, err := tokens.Check(t.Context(), old); !fault.Is(err, fault.Denied) {
			t.Errorf("%s: a token of a deleted key: %v", name, err)
		}
		if _, err := tokens.Check(t.Context(), next); err != nil {
			t.Errorf("%s: a token of the new key: %v", name, err)
		}
		if keys := tokens.Keys(); len(keys) != 1 || keys[0].Serial != "2" || !keys[0].Signs || keys[0].Bits != tokenKeyBits {
			t.Errorf("%s: keys %v", name, keys)
		}
	}
	// A new key replaces the last one.
	if err := tokens.Delete(t.Context(), gate, "2", anyway); err != nil || tokens.Newest() != "3" {
		t.Errorf("key %s, %v", tokens.Newest(), err)
	}
	if _, err := tokens.Check(t.Context(), issue()); err != nil {
		t.Error(err)
	}
}

func reopened(t *testing.T, s store.Store) *Tokens {
	t.Helper()
	tokens, err := OpenTokens(t.Context(), s, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	return tokens
}

// TestDataplaneKeysRotate: exchanged tokens keep their claims under the newest key, and are
// revoked together with their id. Rotations that race each make a key.
func TestDataplaneKeysRotate(t *testing.T) {
	tt := newTokenTest(t)
	gate := keyGate(tt.store)
	old := tt.issue(DataplaneTokenRequest{Mesh: "m", Name: "web", ValidFor: "720h", Tags: map[string][]string{mesh.TagService: {"web"}}})
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			if _, err := tt.Rotate(t.Context(), gate, "m"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if serial, err := tt.Newest(t.Context(), "m"); err != nil || serial != "3" {
		t.Fatalf("key %s, %v", serial, err)
	}
	next, err := tt.Exchange(t.Context(), old)
	if err != nil || KeyID(old) != "1" || KeyID(next) != "3" {
		t.Fatalf("a token of key %s became one of key %s: %v", KeyID(old), KeyID(next), err)
	}
	// The middle part, the claims, must be the same in both tokens.
	if strings.Split(old, ".")[1] != strings.Split(next, ".")[1] {
		t.Error("the exchanged token says something else")
	}
	for _, serial := range []string{"1", "2"} {
		storetest.Place(t, tt.store, mesh.Secrets, "m", mesh.TokenSigningKey+"m-"+serial, nil)
	}
	if _, err := tt.Check(t.Context(), old); !fault.Is(err, fault.Denied) {
		t.Errorf("a token of a deleted key: %v", err)
	}
	c, err := tt.Check(t.Context(), next)
	if err != nil {
		t.Fatal(err)
	}
	storetest.Place(t, tt.store, mesh.Secrets, "m", mesh.TokenRevocations+"m", &mesh.Secret{Data: []byte(c.ID)})
	if _, err := tt.Exchange(t.Context(), next); !fault.Is(err, fault.Denied) {
		t.Errorf("a revoked token was exchanged: %v", err)
	}
}

// TestUses: a key is not deleted while a node needs it.
func TestUses(t *testing.T) {
	c := identitytest.NewClock()
	u := NewUses(c.Now)
	may := func(key string, last bool) string {
		if err := u.MayDelete("key "+key, "m.", key, last); err != nil {
			if !fault.Is(err, fault.Conflict) {
				t.Errorf("not a conflict: %v", err)
			}
			return err.Error()
		}
		return ""
	}
	expect := func(when, got, want string) {
		t.Helper()
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: %q", when, got)
		}
	}
	expect("at the start", may("1", false), "has just started, and nodes have 30s")
	c.Advance(usesGrace)
	expect("nobody came", may("1", false), "")
	expect("the last one", may("1", true), "is the last one")
	u.Streamed("m.a", "1", c.Now().Add(time.Hour))
	u.Streamed("other.a", "1", c.Now().Add(time.Hour))
	expect("a stream", may("1", false), "1 node (m.a)")
	u.Linked("m.a", "2", c.Now().Add(time.Hour))
	u.Streamed("m.a", "1", c.Now().Add(time.Hour)) // judged again with the token that it began with
	expect("it has taken another one", may("1", false), "")
	expect("of which it is", may("2", false), "m.a")
	for _, n := range strings.Split("bcdefghijkl", "") {
		u.Linked("m."+n, "1", c.Now().Add(time.Minute))
	}
	expect("many", may("1", false), "11 nodes (m.b, m.c, ")
	u.Forget("m.l")
	expect("one was forgotten", may("1", false), "10 nodes")
	c.Advance(time.Minute)
	expect("tokens have ended", may("1", false), "")
	if u.Key("m.a") != "2" || u.Key("m.b") != "" {
		t.Errorf("keys %q, %q", u.Key("m.a"), u.Key("m.b"))
	}
}
