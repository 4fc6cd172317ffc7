package oauth

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// watched counts the views of a store.
type watched struct {
	store.Store
	views atomic.Int64
}

// View implements [store.Store].
func (s *watched) View(ctx context.Context, fn func(store.Reader) error) error {
	s.views.Add(1)
	return s.Store.View(ctx, fn)
}

// onWatched opens the server of a world anew, on a store whose views are counted.
func (w *world) onWatched() *watched {
	s := &watched{Store: w.db}
	writer := w.server.Writer
	w.db = s
	w.server = w.open()
	w.server.Writer = writer
	return s
}

// TestWhatWasReadBeforeAChangeJudgesNothing: what judges requests is read once, as long as
// nothing of it changes. A request that comes after a change is judged by the change.
func TestWhatWasReadBeforeAChangeJudgesNothing(t *testing.T) {
	const asks = "&grant_type=client_credentials&scope=read"
	with := func(secret string) string { return "client_id=app&client_secret=" + secret + asks }
	del := func(k *model.Kind, name string) func(*world) {
		return func(w *world) {
			if _, err := w.db.Update(context.Background(), model.Config, func(tx store.Tx) error { return tx.Delete(k, scopeName, name, 0) }); err != nil {
				w.t.Fatal(err)
			}
		}
	}
	replaced := func(w *world) { w.setApp(func(a *gateway.Application) { a.ClientSecret = "fresh" }) }
	cfg := allGrants()
	cfg.Scopes = []string{"read"}
	for name, tc := range map[string]struct {
		change func(*world)
		body   string
		status int
	}{
		"the secret is replaced, and the old one comes": {replaced, with("secret"), 400},
		"the secret is replaced, and the new one comes": {replaced, with("fresh"), 200},
		"the client gets another id":                    {func(w *world) { w.setApp(func(a *gateway.Application) { a.ClientID = "else" }) }, with("secret"), 400},
		"the client is deleted":                         {del(gateway.Applications, "app"), with("secret"), 400},
		"its consumer is deleted":                       {del(gateway.Consumers, "c1"), with("secret"), 400},
		"the scope is taken away": {func(w *world) {
			w.setPlugin(func(_ *gateway.Plugin, c *gateway.OAuth2Config) { c.Scopes = []string{"write"} })
		}, with("secret"), 400},
		"the grant is switched off": {func(w *world) {
			w.setPlugin(func(_ *gateway.Plugin, c *gateway.OAuth2Config) { c.EnableClientCredentials = false })
		}, with("secret"), 400},
		"the plugin is switched off":              {meanwhile["the plugin is switched off"].change, with("secret"), 503},
		"the plugin is deleted":                   {meanwhile["the plugin is deleted"].change, with("secret"), 503},
		"the plugin is moved to another service":  {func(w *world) { w.setPlugin(func(p *gateway.Plugin, _ *gateway.OAuth2Config) { p.Service = "s3" }) }, with("secret"), 503},
		"another plugin says that it is this one": {func(w *world) { w.remakePlugin(func(c *gateway.OAuth2Config) { c.Scopes = []string{"write"} }) }, with("secret"), 400},
	} {
		t.Run(name, func(t *testing.T) {
			worlds(t, cfg, func(t *testing.T, w *world) {
				w.create(&model.Resource{Kind: gateway.Services, Scope: scopeName, Name: "s3", Spec: &gateway.Service{Name: "third", Host: "h"}})
				s := w.onWatched()
				for _, views := range []int64{2, 0} { // plugin and client, each once
					before := s.views.Load()
					if status, doc := w.post("token", with("secret")); status != 200 {
						t.Fatalf("%d %v", status, doc)
					}
					if n := s.views.Load() - before; n != views {
						t.Errorf("%d views of the store, want %d", n, views)
					}
				}
				tc.change(w)
				if status, doc := w.post("token", tc.body); status != tc.status {
					t.Errorf("after the change: %d %v", status, doc)
				}
			})
		})
	}
}

// TestUnknownClientsMayCome: that a client is unknown is asked each time, because creating
// one is no event.
func TestUnknownClientsMayCome(t *testing.T) {
	worlds(t, allGrants(), func(t *testing.T, w *world) {
		const body = "client_id=new&client_secret=new&grant_type=client_credentials"
		if status, doc := w.post("token", body); status != 400 {
			t.Fatalf("%d %v", status, doc)
		}
		w.create(&model.Resource{Kind: gateway.Applications, Scope: scopeName, Name: "new", Spec: &gateway.Application{
			Name: "new", ClientID: "new", ClientSecret: "new", ClientType: gateway.ClientConfidential, Consumer: "c1",
		}})
		if status, doc := w.post("token", body); status != 200 {
			t.Errorf("%d %v", status, doc)
		}
	})
}

// TestConfigurationsAreBounded: plugins that come and go leave nothing behind.
func TestConfigurationsAreBounded(t *testing.T) {
	var c configurations
	for n := range 3 * maxConfigurations {
		plugin := &model.Resource{Spec: &gateway.Plugin{Config: fmt.Appendf(nil, `{"token_expiration": %d}`, n)}}
		for range 2 {
			if cfg, err := c.of(plugin); err != nil || cfg.TokenExpiration != int64(n) {
				t.Fatal(cfg, err)
			}
		}
	}
	if len(c.kept) > maxConfigurations {
		t.Errorf("%d configurations are kept", len(c.kept))
	}
}
