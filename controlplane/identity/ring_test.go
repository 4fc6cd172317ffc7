package identity

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/golang-jwt/jwt/v5"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/identity/identitytest"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// secretReads is a store that counts how often secrets are read.
type secretReads struct {
	store.Store
	n atomic.Int64
}

func (s *secretReads) View(ctx context.Context, fn func(store.Reader) error) error {
	return s.Store.View(ctx, func(r store.Reader) error { return fn(countingReader{r, &s.n}) })
}

type countingReader struct {
	store.Reader
	n *atomic.Int64
}

func (r countingReader) Get(k *model.Kind, scope, name string) (*model.Resource, error) {
	if k == mesh.Secrets {
		r.n.Add(1)
	}
	return r.Reader.Get(k, scope, name)
}

// verifications counts how often signatures are verified.
type verifications struct {
	jwt.SigningMethod
	n atomic.Int64
}

func (v *verifications) Verify(text string, signature []byte, key any) error {
	v.n.Add(1)
	return v.SigningMethod.Verify(text, signature, key)
}

// TestCrowdIsJudgedByOneReading: a fleet that comes back costs one reading of the keys,
// and one verification of each token however often it is shown.
func TestCrowdIsJudgedByOneReading(t *testing.T) {
	reads := &secretReads{Store: identitytest.Memory(t)}
	tt := tokenTestOn(t, reads)
	rsa := &verifications{SigningMethod: jwt.SigningMethodRS256}
	tt.rs256 = remembering{rsa, &verified{}}
	shown := func(tokens ...string) {
		t.Helper()
		for _, token := range tokens {
			if err := tt.CheckToken(t.Context(), token); err != nil {
				t.Fatal(err)
			}
			if err := tt.authenticate("m.web", token); err != nil {
				t.Fatal(err)
			}
		}
	}
	var tokens []string
	for range 10 {
		tokens = append(tokens, tt.issue(DataplaneTokenRequest{Mesh: "m", Name: "web"}))
	}
	reads.n.Store(0)
	shown(tokens...)
	shown(tokens...)
	if n := reads.n.Load(); n > 3 { // the mark of a withdrawn key, the key, the revocations
		t.Errorf("secrets were read %d times", n)
	}
	if n := rsa.n.Load(); n != 10 {
		t.Errorf("10 signatures were verified %d times", n)
	}
	tt.secret("m", "anything", []byte("x")) // another revision
	reads.n.Store(0)
	shown(tokens...)
	if n := reads.n.Load(); n == 0 || n > 3 {
		t.Errorf("after a write secrets were read %d times", n)
	}
}

// TestWhatIsRememberedCountsNoLonger: a revocation, another key under the same serial and
// the end of a key count at once for tokens that were good a moment ago.
func TestWhatIsRememberedCountsNoLonger(t *testing.T) {
	for name, change := range map[string]func(tt *tokenTest, token string){
		"revoked": func(tt *tokenTest, token string) {
			tt.secret("m", mesh.TokenRevocations+"m", []byte(part(tt.t, token, 1)["jti"].(string)))
		},
		"another key": func(tt *tokenTest, _ string) { tt.key("m", "1", pkcs1(signingKeys()[1])) },
		"no key":      func(tt *tokenTest, _ string) { tt.removeKey("m", "1") },
	} {
		t.Run(name, func(t *testing.T) {
			tt := newTokenTest(t)
			token := tt.issue(DataplaneTokenRequest{Mesh: "m", Name: "web"})
			if err := tt.authenticate("m.web", token); err != nil {
				t.Fatal(err)
			}
			change(tt, token)
			if err := tt.authenticate("m.web", token); !fault.Is(err, fault.Denied) {
				t.Error(err)
			}
		})
	}
}

// TestOlderReaderIsNotServedByNewerKeys: what a transaction sees is one state.
func TestOlderReaderIsNotServedByNewerKeys(t *testing.T) {
	tt := newTokenTest(t)
	token := tt.issue(DataplaneTokenRequest{Mesh: "m", Name: "web"})
	err := tt.store.View(t.Context(), func(old store.Reader) error {
		tt.secret("m", mesh.TokenRevocations+"m", []byte(part(t, token, 1)["jti"].(string)))
		if err := tt.authenticate("m.web", token); !fault.Is(err, fault.Denied) {
			t.Error("revoked:", err)
		}
		_, err := tt.check(old, token)
		return err
	})
	if err != nil {
		t.Error("before:", err)
	}
	if err := tt.authenticate("m.web", token); !fault.Is(err, fault.Denied) {
		t.Error("after an older reader:", err)
	}
}

// TestVerifiedAreBounded: strangers with good tokens cannot fill the memory.
func TestVerifiedAreBounded(t *testing.T) {
	var v verified
	for i := range 3 * maxVerified {
		v.put([32]byte{byte(i), byte(i >> 8), byte(i >> 16)})
	}
	if n := len(v.young) + len(v.old); n > 2*maxVerified {
		t.Errorf("%d are remembered", n)
	}
	last := 3*maxVerified - 1
	if !v.has([32]byte{byte(last), byte(last >> 8), byte(last >> 16)}) {
		t.Error("the newest is forgotten")
	}
}
