package oauth

import (
	"context"
	"net/http"
	"runtime"
	"testing"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/gateway"
)

const asHashed = "grant_type=client_credentials&client_id=hashed&client_secret="

// occupy takes all places of the pool, and returns a function that frees them.
func (h *hashing) occupy(t *testing.T) (free func()) {
	t.Helper()
	for len(h.running) < cap(h.running) {
		if err := h.enter(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	waiting := cap(h.places) - len(h.places)
	for range waiting {
		h.places <- struct{}{}
	}
	return func() {
		for range waiting {
			<-h.places
		}
		for len(h.running) > 0 {
			h.leave()
		}
	}
}

// TestHashingIsBounded: where too many secrets wait to be hashed, further ones
// are refused at once; clients whose secrets cost nothing do not notice.
func TestHashingIsBounded(t *testing.T) {
	w := newWorld(t, gateway.OAuth2Config{EnableClientCredentials: true})
	if n := cap(w.server.hashing.running); n < 1 || (n >= runtime.GOMAXPROCS(0) && n > 1) {
		t.Errorf("%d secrets are hashed at once by %d processors", n, runtime.GOMAXPROCS(0))
	}
	free := w.server.hashing.occupy(t)
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

// TestWaitingEndsWithTheRequest: whoever went away leaves its place.
func TestWaitingEndsWithTheRequest(t *testing.T) {
	h := sizedHashing(1)
	if err := h.enter(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := h.enter(ctx); !fault.Is(err, fault.Unavailable) {
		t.Errorf("%v", err)
	}
	h.leave()
	if len(h.places) != 0 || len(h.running) != 0 {
		t.Errorf("%d places and %d turns are taken", len(h.places), len(h.running))
	}
}

// TestRehashWaitsForNobody: hashing a stored secret anew can be done another time.
func TestRehashWaitsForNobody(t *testing.T) {
	w := newWorld(t, gateway.OAuth2Config{EnableClientCredentials: true})
	w.setApp(func(a *gateway.Application) { a.HashSecret = true })
	free := w.server.hashing.occupy(t)
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
