package edge

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/controlplane/view"
)

// testParams are the parameters of a usual proxy.
var testParams = Params{
	HTTPPort: 8000, HTTPSPort: 8443, OAuth: Endpoint{Host: "127.0.0.1", Port: 5678, ServerName: "localhost"},
	RootsFile: "/etc/ssl/certs/ca-certificates.crt",
}

// world is a store with a control plane.
type world struct {
	t     tb
	store store.Store
	// written is the revision of the last write.
	written uint64
}

// tb contains the methods that *testing.T and *rapid.T share.
type tb interface {
	Helper()
	Cleanup(func())
	Error(args ...any)
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

func newWorld(t tb) *world {
	w := &world{t: t, store: memstore.New()}
	t.Cleanup(func() {
		if err := w.store.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// put creates or replaces a resource; created is in seconds.
func (w *world) put(k *model.Kind, id string, created int64, spec any) {
	w.t.Helper()
	if err := w.write(k, id, created, spec); err != nil {
		w.t.Fatalf("put %s %s: %v", k.Name, id, err)
	}
}

// write does what put does, but returns an error if the store refuses.
func (w *world) write(k *model.Kind, id string, created int64, spec any) error {
	res := &model.Resource{Kind: k, Scope: model.DefaultControlPlane, Name: id, Created: time.Unix(created, 0), Spec: spec}
	commit, err := w.store.Update(context.Background(), model.Config, func(tx store.Tx) error {
		_, err := tx.Create(res)
		if fault.Is(err, fault.Exists) {
			_, err = tx.Update(res, 0)
		}
		return err
	})
	if err == nil {
		w.written = max(w.written, commit.Revision)
	}
	return err
}

func (w *world) drop(k *model.Kind, id string) {
	w.t.Helper()
	commit, err := w.store.Update(context.Background(), model.Config, func(tx store.Tx) error {
		return tx.Delete(k, model.DefaultControlPlane, id, 0)
	})
	if err != nil && !fault.Is(err, fault.NotFound) && !fault.Is(err, fault.Referenced) {
		w.t.Fatalf("delete %s %s: %v", k.Name, id, err)
	}
	if err == nil {
		w.written = max(w.written, commit.Revision)
	}
}

func (*world) ctx() context.Context { return context.Background() }

func (w *world) state() *view.Gateway {
	w.t.Helper()
	var g *view.Gateway
	err := w.store.View(context.Background(), func(r store.Reader) (err error) {
		g, err = view.Load(model.DefaultControlPlane, r)
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return g
}

func serviceSpec(path string) *gateway.Service {
	return &gateway.Service{
		Protocol: "http", Host: "127.0.0.1", Port: 9000, Path: path, Retries: 5,
		ConnectTimeout: 60000, ReadTimeout: 60000, WriteTimeout: 60000, Enabled: true,
	}
}

func routeSpec(service string, paths ...string) *gateway.Route {
	return &gateway.Route{
		Protocols: []string{"http", "https"}, Paths: paths, StripPath: true, HTTPSRedirectStatusCode: 426, Service: service,
	}
}

func pluginSpec(t tb, route, service string, edit func(*gateway.OAuth2Config)) *gateway.Plugin {
	t.Helper()
	c := gateway.OAuth2Config{AuthHeaderName: "authorization", Scopes: []string{"email"}, PKCE: "lax"}
	if edit != nil {
		edit(&c)
	}
	body, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	return &gateway.Plugin{Name: "oauth2", Route: route, Service: service, Config: body, Enabled: true, Protocols: []string{"http", "https"}}
}

// id returns a recognisable UUID.
func id(kind, n int) string { return fmt.Sprintf("%08d-0000-4000-8000-%012d", kind, n) }
