package oauth

import (
	"net/http"
	"testing"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/turns"
)

const asHashed = "grant_type=client_credentials&client_id=hashed&client_secret="

// occupied gives the server room for one secret, and takes the room until free is called.
func (s *Server) occupied(t *testing.T) (free func()) {
	t.Helper()
	s.hashing = hashing{turns.Sized(1, 0)}
	if err := s.hashing.Enter(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s.hashing.Leave
}

// TestHashingIsBounded: if too many secrets wait to be hashed, further ones are refused at
// once. Clients whose secrets need no hashing do not notice.
func TestHashingIsBounded(t *testing.T) {
	w := newWorld(t, gateway.OAuth2Config{EnableClientCredentials: true})
	free := w.server.occupied(t)
	for _, secret := range []string{"wrong", "hashed-secret"} {
		rec := w.ask(http.MethodPost, "/oauth2/token", form, asHashed+secret, nil)
		if rec.Code != http.StatusServiceUnavailable || rec.Header().Get("Retry-After") != "1" {
			t.Errorf("%s: %d, Retry-After %q", secret, rec.Code, rec.Header().Get("Retry-After"))
		}
	}
	if status, doc := w.post("token", "grant_type=client_credentials&"+asApp); status != 200 {
		t.Errorf("a client with a plain secret: %d %v", status, doc)
	}
	free()
	if status, doc := w.post("token", asHashed+"hashed-secret"); status != 200 {
		t.Errorf("afterwards: %d %v", status, doc)
	}
}

// TestRehashWaitsForNobody: a request does not wait to hash a stored secret anew, because a
// later request can do it.
func TestRehashWaitsForNobody(t *testing.T) {
	w := newWorld(t, gateway.OAuth2Config{EnableClientCredentials: true})
	w.setApp(func(a *gateway.Application) { a.HashSecret = true })
	free := w.server.occupied(t)
	if status, doc := w.post("token", "grant_type=client_credentials&"+asApp); status != 200 {
		t.Errorf("%d %v", status, doc)
	}
	if w.app().ClientSecret != "secret" {
		t.Error("it was hashed")
	}
	free()
	if status, _ := w.post("token", "grant_type=client_credentials&"+asApp); status != 200 {
		t.Errorf("%d", status)
	}
	if hashed, _ := gateway.Hashed(w.app().ClientSecret); !hashed {
		t.Error("it was not hashed afterwards")
	}
}

// BenchmarkWrongGuess measures what a wrong guess at a hashed secret costs.
func BenchmarkWrongGuess(b *testing.B) {
	hashed, err := hashedSecret()
	if err != nil {
		b.Fatal(err)
	}
	h, app := newHashing(), &gateway.Application{ClientSecret: hashed}
	for b.Loop() {
		if ok, err := h.fits(b.Context(), app, "wrong"); ok || err != nil {
			b.Fatal(ok, err)
		}
	}
}
