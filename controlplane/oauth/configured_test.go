package oauth

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/filter/contract"
)

// setPlugin changes the plugin p1; nil deletes it.
func (w *world) setPlugin(change func(*gateway.Plugin, *gateway.OAuth2Config)) {
	w.t.Helper()
	if _, err := w.db.Update(context.Background(), model.Config, func(tx store.Tx) error {
		res, err := tx.Get(gateway.Plugins, scopeName, "p1")
		if err != nil {
			return err
		}
		if change == nil {
			return tx.Delete(res.Kind, scopeName, res.Name, 0)
		}
		p := *res.Spec.(*gateway.Plugin)
		var cfg gateway.OAuth2Config
		if err := json.Unmarshal(p.Config, &cfg); err != nil {
			return err
		}
		change(&p, &cfg)
		if p.Config, err = json.Marshal(cfg); err != nil {
			return err
		}
		_, err = tx.Update(&model.Resource{Kind: res.Kind, Scope: scopeName, Name: res.Name, Spec: &p}, 0)
		return err
	}); err != nil {
		w.t.Fatal(err)
	}
}

// remakePlugin deletes the plugin p1 and makes one with its id that says that it was created
// when that was.
func (w *world) remakePlugin(change func(*gateway.OAuth2Config)) {
	w.t.Helper()
	if _, err := w.db.Update(context.Background(), model.Config, func(tx store.Tx) error {
		res, err := tx.Get(gateway.Plugins, scopeName, "p1")
		if err != nil {
			return err
		}
		p := *res.Spec.(*gateway.Plugin)
		var cfg gateway.OAuth2Config
		if err := json.Unmarshal(p.Config, &cfg); err != nil {
			return err
		}
		change(&cfg)
		if p.Config, err = json.Marshal(cfg); err != nil {
			return err
		}
		if err := tx.Delete(res.Kind, scopeName, res.Name, 0); err != nil {
			return err
		}
		_, err = tx.Create(&model.Resource{Kind: res.Kind, Scope: scopeName, Name: res.Name, Created: res.Created, Spec: &p})
		return err
	}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) create(r *model.Resource) {
	w.t.Helper()
	if _, err := w.db.Update(context.Background(), model.Config, func(tx store.Tx) error {
		_, err := tx.Create(r)
		return err
	}); err != nil {
		w.t.Fatal(err)
	}
}

// meanwhile holds changes that happen during a request, and the answer that the request must
// get then.
var meanwhile = map[string]struct {
	change func(*world)
	status int
}{
	"the provision key is replaced": {func(w *world) {
		w.setPlugin(func(_ *gateway.Plugin, c *gateway.OAuth2Config) { c.ProvisionKey = "fresh" })
	}, 400},
	"the grants are switched off": {func(w *world) {
		w.setPlugin(func(_ *gateway.Plugin, c *gateway.OAuth2Config) {
			c.EnableImplicitGrant, c.EnablePasswordGrant, c.EnableAuthorizationCode = false, false, false
		})
	}, 400},
	"the plugin is switched off": {func(w *world) { w.setPlugin(func(p *gateway.Plugin, _ *gateway.OAuth2Config) { p.Enabled = false }) }, 503},
	"the plugin is deleted":      {func(w *world) { w.setPlugin(nil) }, 503},
}

func allGrants() gateway.OAuth2Config {
	return gateway.OAuth2Config{
		EnableImplicitGrant: true, EnablePasswordGrant: true, EnableAuthorizationCode: true, EnableClientCredentials: true,
		TokenExpiration: 60, ProvisionKey: "pk", Endpoints: true,
	}
}

// TestABodyThatIsHeldBackIsJudgedByWhatIsInForce: an attacker with a stolen key keeps a
// request open, and sends the rest when the key has been replaced.
func TestABodyThatIsHeldBackIsJudgedByWhatIsInForce(t *testing.T) {
	for grant, ask := range map[string]struct{ endpoint, body string }{
		"implicit": {"authorize", "client_id=app&response_type=token&provision_key=pk&authenticated_userid=anybody"},
		"code":     {"authorize", "client_id=app&response_type=code&provision_key=pk&authenticated_userid=anybody"},
		"password": {"token", asApp + "&grant_type=password&provision_key=pk&authenticated_userid=anybody"},
	} {
		for name, tc := range meanwhile {
			t.Run(grant+", "+name, func(t *testing.T) {
				worlds(t, allGrants(), func(t *testing.T, w *world) {
					status, doc := w.postLate(ask.endpoint, ask.body, func() { tc.change(w) })
					if status != tc.status {
						t.Errorf("%d %v", status, doc)
					}
					if n := w.count(gateway.Tokens) + w.count(gateway.Codes); n != 0 {
						t.Errorf("%d tokens and codes were issued", n)
					}
				})
			})
		}
	}
}

// outrun is a write path that writes something else before its first transactions.
type outrun struct {
	direct
	change func(turn int)
	turn   *int
}

// Write implements Writer.
func (o outrun) Write(ctx context.Context, class model.Class, fn func(store.Tx) error) (store.Commit, error) {
	*o.turn++
	o.change(*o.turn)
	return o.direct.Write(ctx, class, fn)
}

func (w *world) overtake(change func(turn int)) (turns *int) {
	turns = new(int)
	w.server.Writer = outrun{direct{Store: w.db}, change, turns}
	return turns
}

// TestWhatIsChangedBeforeTheTransactionIsJudgedAgain: between the authentication and the
// transaction, a request waits for the hashing of others and for its turn to write.
func TestWhatIsChangedBeforeTheTransactionIsJudgedAgain(t *testing.T) {
	changes := map[string]struct {
		change func(*world)
		status int
	}{
		"the secret is replaced": {func(w *world) { w.setApp(func(a *gateway.Application) { a.ClientSecret = "fresh" }) }, 400},
		"the client is renamed":  {func(w *world) { w.setApp(func(a *gateway.Application) { a.Name = "other" }) }, 200},
		"the scope is taken away": {func(w *world) {
			w.setPlugin(func(_ *gateway.Plugin, c *gateway.OAuth2Config) { c.Scopes = []string{"write"} })
		}, 400},
		"another plugin says that it is this one": {func(w *world) {
			w.remakePlugin(func(c *gateway.OAuth2Config) { c.Scopes = []string{"write"} })
		}, 400},
		"the plugin is switched off": meanwhile["the plugin is switched off"],
		"the plugin is deleted":      meanwhile["the plugin is deleted"],
	}
	cfg := allGrants()
	cfg.Scopes = []string{"read"}
	for name, tc := range changes {
		t.Run(name, func(t *testing.T) {
			worlds(t, cfg, func(t *testing.T, w *world) {
				w.overtake(func(turn int) {
					if turn == 1 {
						tc.change(w)
					}
				})
				status, doc := w.post("token", asApp+"&grant_type=client_credentials&scope=read")
				if status != tc.status {
					t.Errorf("%d %v", status, doc)
				}
				if n := w.count(gateway.Tokens); n > 0 != (tc.status == 200) {
					t.Errorf("%d tokens were issued", n)
				}
			})
		})
	}
}

// TestRevocationByAReplacedSecret: a client that has only the old secret revokes nothing.
func TestRevocationByAReplacedSecret(t *testing.T) {
	worlds(t, allGrants(), func(t *testing.T, w *world) {
		_, doc := w.post("token", asApp+"&grant_type=client_credentials")
		access := doc["access_token"].(string)
		w.overtake(func(turn int) {
			if turn == 1 {
				w.setApp(func(a *gateway.Application) { a.ClientSecret = "fresh" })
			}
		})
		if rec := w.ask(http.MethodPost, "/x/oauth2/revoke", form, asApp+"&token="+access, nil); rec.Code != 400 {
			t.Errorf("%d %s", rec.Code, rec.Body)
		}
		if !w.lives(access) {
			t.Error("the token is revoked")
		}
	})
}

// TestARequestIsNotJudgedForEver: if changes never end, the answer is 503.
func TestARequestIsNotJudgedForEver(t *testing.T) {
	w := newWorld(t, allGrants())
	turns := w.overtake(func(turn int) { w.setApp(func(a *gateway.Application) { a.Name = fmt.Sprint("app", turn) }) })
	status, doc := w.post("token", asApp+"&grant_type=client_credentials")
	if status != 503 || *turns != attempts {
		t.Errorf("%d %v after %d turns", status, doc, *turns)
	}
}

// TestPluginsServeTheirServices: a gateway that names another service than that of the
// plugin's route gets nothing. Otherwise the token would carry the grants of one service to
// another.
func TestPluginsServeTheirServices(t *testing.T) {
	named := func(service string) func(*world) {
		return func(w *world) {
			w.create(&model.Resource{Kind: gateway.Services, Scope: scopeName, Name: "s3", Spec: &gateway.Service{Name: "third", Host: "h"}})
			w.setPlugin(func(p *gateway.Plugin, _ *gateway.OAuth2Config) { p.Service = service })
		}
	}
	routed := func(service string) func(*world) {
		return func(w *world) {
			w.create(&model.Resource{Kind: gateway.Routes, Scope: scopeName, Name: "r1", Spec: &gateway.Route{Service: service}})
			w.setPlugin(func(p *gateway.Plugin, _ *gateway.OAuth2Config) { p.Route = "r1" })
		}
	}
	for name, tc := range map[string]struct {
		attach func(*world)
		status int
	}{
		"everywhere": {func(*world) {}, 200}, "the service": {named("s1"), 200}, "another service": {named("s3"), 503},
		"a route of the service": {routed("s1"), 200}, "a route of another service": {routed("s2"), 503},
	} {
		t.Run(name, func(t *testing.T) {
			worlds(t, allGrants(), func(t *testing.T, w *world) {
				tc.attach(w)
				rec := w.ask(http.MethodPost, "/x/oauth2/token", form, asApp+"&grant_type=client_credentials", map[string]string{contract.HeaderOAuthService: "s1"})
				if rec.Code != tc.status {
					t.Errorf("%d %s", rec.Code, rec.Body)
				}
			})
		})
	}
}
