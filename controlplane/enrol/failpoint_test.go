package enrol

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/admit/admittest"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/identity"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/controlplane/store/storetest"
)

// failing is a server, with real tokens, over a store with failpoints.
type failing struct {
	*Server
	t      *testing.T
	points *storetest.Failpoints
	log    *storetest.Complaints
	// gateway and proxy are tokens of gateway gw and of dataplane web-1.
	gateway, proxy string
}

// onFailpoints copies its keys from a store that has them, because making them takes long.
func onFailpoints(t *testing.T, key []byte, keys store.Store) *failing {
	t.Helper()
	f := &failing{t: t, points: &storetest.Failpoints{Store: memstore.New()}, log: &storetest.Complaints{}}
	_, err := f.points.Update(t.Context(), model.Config, func(tx store.Tx) error {
		for _, r := range []*model.Resource{
			{Kind: mesh.Meshes, Name: "default", Spec: &mesh.Mesh{}},
			{Kind: mesh.Secrets, Scope: "default", Name: mesh.TokenSigningKey + "default-1", Spec: &mesh.Secret{Data: key}},
		} {
			if _, err := tx.Create(r); err != nil {
				return err
			}
		}
		return nil
	})
	f.must(err)
	f.must(keys.View(t.Context(), func(from store.Reader) error {
		list, err := from.List(identity.Keys, store.Query{})
		if err != nil {
			return err
		}
		_, err = f.points.Update(t.Context(), identity.Keys.Class, func(tx store.Tx) error {
			for _, r := range list {
				if _, err := tx.Create(&model.Resource{Kind: r.Kind, Name: r.Name, Spec: r.Spec}); err != nil {
					return err
				}
			}
			return nil
		})
		return err
	}))
	nodes, err := identity.OpenTokens(t.Context(), f.points, time.Now)
	f.must(err)
	proxies := identity.NewDataplaneTokens(f.points, time.Now)
	f.gateway, err = nodes.Gateway("default", "gw", time.Hour)
	f.must(err)
	f.proxy, err = proxies.Issue(t.Context(), identity.DataplaneTokenRequest{Mesh: "default", Name: "web-1"})
	f.must(err)
	f.Server = &Server{
		Store: f.points, Writer: admit.New(f.points, &admittest.Revoker{}, gateway.Kinds(), time.Now), Tokens: nodes,
		Mesh: &Mesh{
			Tokens: proxies, Documents: admit.New(f.points, &admittest.Revoker{}, mesh.Kinds(), time.Now),
			CA: func() []byte { return []byte("the CA") }, Names: func() []string { return []string{"localhost"} },
		},
	}
	return f
}

func (f *failing) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

// ask sends a request of a node. A node takes a refusal as final, so a failure of the store
// must be reported in a way that makes the node ask again.
func (f *failing) ask(h http.HandlerFunc, method, token, body string) error {
	r := httptest.NewRequest(method, "https://localhost:5678"+Path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+token)
	rec := httptest.NewRecorder()
	httpkit.Observe(h, slog.New(f.log)).ServeHTTP(rec, r)
	if rec.Code < 300 {
		return nil
	}
	if rec.Code < 500 || strings.Contains(rec.Body.String(), "the store failed") {
		f.t.Errorf("a failure of the store was answered %d %s", rec.Code, rec.Body)
	}
	return fmt.Errorf("%d %s", rec.Code, rec.Body)
}

func (f *failing) state() string {
	return storetest.Dump(f.t, f.points.Store, []*model.Kind{gateway.Instances, mesh.Dataplanes}, "default")
}

// TestEveryStoreCallFailsOnce lets each store call of an enrolment fail once.
func TestEveryStoreCallFailsOnce(t *testing.T) {
	key, err := identity.GenerateSigningKey()
	if err != nil {
		t.Fatal(err)
	}
	keys := newWorld(t).Store
	proxy := map[string]any{"mesh": "default", "name": "web-1", "relay": &Relay{Socket: "/run/ads.sock", AdminSocket: "/run/admin.sock"}}
	bring := map[string]any{"mesh": "default", "name": "web-1", "relay": proxy["relay"], "dataplaneResource": dataplaneYAML}
	join := func(f *failing) { f.must(f.ask(f.ServeHTTP, http.MethodPost, f.proxy, encode(t, bring))) }
	changed := map[string]any{"mesh": "default", "name": "web-1", "relay": proxy["relay"], "dataplaneResource": strings.Replace(dataplaneYAML, "8080", "8081", 1)}
	for name, tc := range map[string]struct {
		method  string
		prepare func(*failing)
		body    map[string]any
		gateway string
		reads   bool
	}{
		"a gateway joins":                {gateway: good},
		"a gateway joins anew":           {gateway: change("http_port", 9000), prepare: func(f *failing) { f.must(f.ask(f.ServeHTTP, http.MethodPost, f.gateway, good)) }},
		"a gateway renews its token":     {method: "renew", reads: true},
		"a proxy brings its dataplane":   {body: bring},
		"a proxy brings another one":     {body: changed, prepare: join},
		"a proxy whose dataplane exists": {body: proxy, prepare: join, reads: true},
		"a proxy leaves":                 {method: http.MethodDelete, body: proxy, prepare: join},
	} {
		t.Run(name, func(t *testing.T) {
			storetest.EveryCallFailsOnce(t, func() storetest.Trial {
				f := onFailpoints(t, key, keys)
				if tc.prepare != nil {
					tc.prepare(f)
				}
				trial := storetest.Trial{Points: f.points, Complaints: f.log, State: f.state, End: func() { _ = f.points.Close() }}
				if tc.reads {
					trial.State = nil
				}
				trial.Act = func() error {
					switch {
					case tc.method == "renew":
						return f.ask(f.Renew, http.MethodPost, f.gateway, "")
					case tc.body == nil:
						return f.ask(f.ServeHTTP, http.MethodPost, f.gateway, tc.gateway)
					case tc.method != "":
						return f.ask(f.ServeHTTP, tc.method, f.proxy, encode(t, tc.body))
					}
					return f.ask(f.ServeHTTP, http.MethodPost, f.proxy, encode(t, tc.body))
				}
				return trial
			})
		})
	}
}

// TestEveryStoreCallOfARemovalFailsOnce: a dataplane whose proxy is gone stays until it can
// be removed, and the log says why.
func TestEveryStoreCallOfARemovalFailsOnce(t *testing.T) {
	storetest.EveryCallFailsOnce(t, func() storetest.Trial {
		earlier := func() time.Time { return time.Now().Add(-time.Hour) } // rows that were written a moment ago are not removed
		points, log := &storetest.Failpoints{Store: memstore.Open(memstore.Options{Now: earlier})}, &storetest.Complaints{}
		gate := admit.New(points, &admittest.Revoker{}, mesh.Kinds(), time.Now).As(model.System("test"))
		put := func(k *model.Kind, scope, name string, spec any) {
			if _, _, err := gate.PutDocument(context.Background(), k, scope, name, spec); err != nil {
				t.Fatal(err)
			}
		}
		put(mesh.Meshes, "", "default", &mesh.Mesh{})
		d := &mesh.Dataplane{Networking: &mesh.Networking{Address: "127.0.0.2", Inbound: []mesh.Inbound{{Port: 80, Tags: mesh.Tags{mesh.TagService: "web"}}}}}
		d.SetLabels(map[string]string{mesh.LabelOwner: mesh.OwnerAgent})
		put(mesh.Dataplanes, "default", "web-1", d)
		r := NewRemovals(points, gate, "west", time.Second, slog.New(log))
		state := func() string { return storetest.Dump(t, points.Store, []*model.Kind{mesh.Dataplanes}, "default") }
		return storetest.Trial{Points: points, Complaints: log, State: state, End: func() { _ = points.Close() }, Act: func() error {
			k := proxyKey{"default", "web-1"}
			delete(r.due, k) // its time is over
			if r.remove(t.Context(), k); state() != "" {
				return fault.New(fault.Internal, "the dataplane is there")
			}
			return nil
		}}
	})
}
