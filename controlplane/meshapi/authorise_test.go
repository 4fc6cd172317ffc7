package meshapi

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/access"
	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/admit/admittest"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
)

// TestRouterEnforces calls every route as every kind of caller, with a handler that checks
// nothing: only the declaration of the route decides.
func TestRouterEnforces(t *testing.T) {
	ran := false
	list := (&API{newAPI(t).options}).Endpoints()
	for i := range list {
		list[i].Handler = func(http.ResponseWriter, *http.Request) { ran = true }
	}
	rt := newRouter(list, nil, forbid)
	for _, e := range list {
		path := strings.NewReplacer("{", "", "}", "").Replace(e.Pattern)
		for name, who := range map[string]model.Actor{
			"nobody": {}, "anonymous": model.Anonymous(), "user": model.User("bob"), "administrator": model.Administrator(),
		} {
			ran = false
			h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { rt.ServeHTTP(w, httpkit.As(r, who)) })
			rec := request(h, e.Method, path, "")
			caller := name
			if name == "administrator" {
				caller = ""
			}
			if want := allowed(false, e.Auth, access.Scope{}, caller) == 0; ran != want || (rec.Code == http.StatusForbidden) == want {
				t.Errorf("%s %s is for the %s: %s reached it: %t (%d)", e.Method, e.Pattern, e.Auth, name, ran, rec.Code)
			}
		}
	}
}

// TestWritesHaveActors: the caller of a write is known when the write is published.
func TestWritesHaveActors(t *testing.T) {
	s := memstore.New()
	var mu sync.Mutex
	var seen []model.Actor
	w := &admittest.Revoker{OnPublish: func(ctx context.Context, _ store.Commit) error {
		who, _ := model.ActorOf(ctx)
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, who)
		return nil
	}}
	t.Cleanup(func() { _ = s.Close() })
	h := Handler(Options{
		Kinds: mesh.Kinds(), Store: s, Identify: identify,
		Writer: admit.New(s, w, mesh.Kinds(), func() time.Time { return start }),
	})
	request(h, "PUT", "/meshes/m", `{"type":"Mesh","name":"m"}`, "Content-Type", mediaJSON, "X-User", "bob")
	request(h, "DELETE", "/meshes/m", "", "X-User", "anonymous")
	if len(seen) != 2 || seen[0].Name != "bob" || seen[1].Name != model.UserAnonymous {
		t.Errorf("writes of %v", seen)
	}
}

// TestSecretsAreReferredToByAdministrators: whoever may not read secrets cannot have others use
// them either.
func TestSecretsAreReferredToByAdministrators(t *testing.T) {
	s := memstore.New()
	t.Cleanup(func() { _ = s.Close() })
	h := Handler(Options{
		Kinds: mesh.Kinds(), Store: s, Identify: identify,
		Writer: admit.New(s, &admittest.Revoker{}, mesh.Kinds(), func() time.Time { return start }),
	})
	put := func(user, tls string) int {
		return request(h, "PUT", "/meshes/m/external-services/x", `{"type":"ExternalService","mesh":"m","name":"x","tags":{"mesh.io/service":"x"},
			"networking":{"address":"x.example:443","tls":{"enabled":true`+tls+`}}}`, "Content-Type", mediaJSON, "X-User", user).Code
	}
	request(h, "PUT", "/meshes/m", `{"type":"Mesh","name":"m"}`, "Content-Type", mediaJSON)
	const client = `,"clientCert":{"secret":"s"},"clientKey":{"secret":"s"}`
	for _, c := range []struct {
		user, tls string
		want      int
	}{
		{"bob", client, 403}, {"anonymous", `,"caCert":{"secret":"s"}`, 403}, {"bob", ``, 201}, {"bob", client, 403}, {"", client, 200},
	} {
		if got := put(c.user, c.tls); got != c.want {
			t.Errorf("%q with %q: %d, want %d", c.user, c.tls, got, c.want)
		}
	}
}
