package enrol

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/gateway"
)

// TestGatewayOfAControlPlane: a gateway joins under the name or the id of its control plane. It is told
// if there is none, or if its token is for another one, and does not try again.
func TestGatewayOfAControlPlane(t *testing.T) {
	w := newWorld(t)
	known := map[string]string{"default": "default", "team": "scope-1", "scope-1": "scope-1"}
	w.Plane = func(_ context.Context, named string) (string, error) {
		if scope, ok := known[named]; ok {
			return scope, nil
		}
		return "", fault.New(fault.NotFound, "there is no control plane %q", named)
	}
	server := httptest.NewTLSServer(w.Server)
	defer server.Close()
	token := func(scope string) string {
		text, err := w.Tokens.Gateway(scope, "gw", time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	in := gateway.Instance{Listen: "0.0.0.0", HTTPPort: 8000, HTTPSPort: 8443, ControlPlane: "127.0.0.1:5678"}
	for _, test := range []struct{ scope, named, want string }{
		{"default", "", ""}, {"default", "default", ""}, {"scope-1", "team", ""}, {"scope-1", "scope-1", ""},
		{"scope-1", "default", `for the control plane "scope-1", not for "default"`},
		{"default", "team", `for the control plane "default", not for "team"`},
		{"scope-1", "nowhere", `no control plane "nowhere"`},
		{"gone", "", `no control plane "gone"`},
	} {
		answer, err := Enrol(t.Context(), server.Client(), server.URL, token(test.scope), "cp/"+test.scope+"/gw", test.named, false, in)
		refused, is := errors.AsType[*Refused](err)
		switch {
		case test.want == "":
			if err != nil || answer.Node != "cp/"+test.scope+"/gw" {
				t.Errorf("%+v: %+v, %v", test, answer, err)
			}
		case !is || !strings.Contains(refused.Text, test.want):
			t.Errorf("%+v: %v", test, err)
		}
	}
}
