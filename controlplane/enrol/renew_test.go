package enrol

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/admit/admittest"
	"github.com/meshgate/meshgate/controlplane/identity"
	"github.com/meshgate/meshgate/controlplane/model"
)

// TestRenewOfBothKinds: a gateway gets a successor, a proxy of a mesh its token signed with
// the newest key. A client with neither token gets a final refusal.
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
	if proxy, err := Renew(t.Context(), server.Client(), server.URL, "default/web/web"); err != nil || proxy != "default/web/web exchanged" {
		t.Errorf("%q, %v", proxy, err)
	}
	gate := admit.New(w.Store, &admittest.Revoker{}, identity.Kinds(), time.Now).As(model.System("test"))
	// A gateway is told what is wrong with its token, not that it is not a proxy's token.
	if _, err := w.Tokens.Withdraw(t.Context(), gate); err != nil {
		t.Fatal(err)
	}
	_, err = Renew(t.Context(), server.Client(), server.URL, next)
	if refused, ok := errors.AsType[*Refused](err); !ok || refused.Status != http.StatusUnauthorized || !strings.Contains(refused.Text, "it is compromised") {
		t.Errorf("%v", err)
	}
	_, err = Renew(t.Context(), server.Client(), server.URL, "forged")
	if refused, ok := errors.AsType[*Refused](err); !ok || refused.Status != http.StatusUnauthorized {
		t.Errorf("%v", err)
	}
}
