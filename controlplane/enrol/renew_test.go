package enrol

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/identity"
)

// TestRenewOfBothKinds: a gateway gets a successor, a proxy of a mesh its token under
// the newest key, and who has neither is refused for good.
func TestRenewOfBothKinds(t *testing.T) {
	w := newWorld(t)
	w.Server.Mesh = &Mesh{Tokens: proxyTokens{}}
	server := httptest.NewServer(http.HandlerFunc(w.Server.Renew))
	defer server.Close()
	token, err := w.Tokens.Gateway("default", "gw", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	next, err := Renew(t.Context(), server.Client(), server.URL, token)
	if err != nil || identity.KeyID(next) != w.Tokens.Newest() {
		t.Errorf("%q, %v", next, err)
	}
	if next, err = Renew(t.Context(), server.Client(), server.URL, "default/web/web"); err != nil || next != "default/web/web exchanged" {
		t.Errorf("%q, %v", next, err)
	}
	_, err = Renew(t.Context(), server.Client(), server.URL, "forged")
	if refused, ok := errors.AsType[*Refused](err); !ok || refused.Status != http.StatusUnauthorized {
		t.Errorf("%v", err)
	}
}
