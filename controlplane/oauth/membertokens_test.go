package oauth_test

import (
	"context"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/oauth"
	"github.com/meshgate/meshgate/controlplane/revoke"
	"github.com/meshgate/meshgate/controlplane/store"
)

// serve gives a member a service of that id with an instance of the plugin.
func (w *groupWorld) serve(scope, service string, change ...func(*gateway.OAuth2Config)) (plugin string) {
	w.t.Helper()
	plugin = "plugin-" + scope + "-" + service
	w.write(scope, gateway.Services, service, &gateway.Service{Name: scope + service})
	w.write(scope, gateway.Plugins, plugin, w.plugin(service, change...))
	return plugin
}

func (w *groupWorld) remove(k *model.Kind, scope, name string) {
	w.t.Helper()
	if err := w.tx(func(tx store.Tx) error { return tx.Delete(k, scope, name, 0) }); err != nil {
		w.t.Fatal(err)
	}
}

// issued asks for a token at a service and demands one.
func (w *groupWorld) issued(scope, plugin, service string, form url.Values) map[string]any {
	w.t.Helper()
	status, doc := w.askAt(scope, plugin, service, "token", form)
	if token, _ := doc["access_token"].(string); status != 200 || token == "" {
		w.t.Fatalf("no token: %d %v", status, doc)
	}
	return doc
}

func forItself() url.Values { return url.Values{"grant_type": {"client_credentials"}} }

// tokens are the rows of a scope.
func (w *groupWorld) tokens(scope string) (list []*model.Resource) {
	w.t.Helper()
	if err := w.db.View(w.t.Context(), func(r store.Reader) (err error) {
		list, err = r.List(gateway.Tokens, store.Query{Scope: scope})
		return err
	}); err != nil {
		w.t.Fatal(err)
	}
	return list
}

// dead demands that a token is gone from the store, and that filters are told.
func (w *groupWorld) dead(scope, token string) {
	w.t.Helper()
	if rec, err := w.record(scope, token); rec != nil || err != nil {
		w.t.Errorf("the token counts in %s: %+v, %v", scope, rec, err)
	}
	told := false
	if err := w.db.View(w.t.Context(), func(r store.Reader) error {
		for _, k := range revoke.Kinds() {
			list, err := r.List(k, store.Query{})
			if err != nil {
				return err
			}
			for _, res := range list {
				t, ok := res.Spec.(*revoke.Tombstone)
				told = told || ok && t.Token == gateway.TokenKey(token)
			}
		}
		return nil
	}); err != nil {
		w.t.Fatal(err)
	}
	if !told {
		w.t.Error("no filter is told that the token is gone")
	}
}

// TestTokenForAServiceOfAnotherMember: an application of one member gets a token for the
// service of another, which counts at gateways of both, and nowhere else. It goes with
// the service, also while the member of that is away.
func TestTokenForAServiceOfAnotherMember(t *testing.T) {
	for name, away := range map[string]bool{"in the group": false, "away from it": true} {
		t.Run(name, func(t *testing.T) {
			w := newGroupWorld(t)
			plugin := w.serve("b", "svc")
			token := w.issued("all", plugin, "svc", forItself())["access_token"].(string)
			for scope, known := range map[string]bool{"all": true, "a": false, "b": false, "other": false} {
				rec, err := w.record(scope, token)
				if err != nil || (rec != nil) != known {
					t.Errorf("in %s: %+v, %v; known must be %v", scope, rec, err, known)
				}
				if rec != nil && (rec.Service != "svc" || rec.Consumer.Username != "eve") {
					t.Errorf("in %s: %+v", scope, rec)
				}
			}
			if rows := w.tokens("a"); len(rows) != 1 || rows[0].Spec.(*gateway.Token).ServicePlane != "b" {
				t.Errorf("the token is not where its application is: %+v", rows)
			}
			if away {
				w.members("a")
				if rec, err := w.record("all", token); err != nil || rec != nil {
					t.Errorf("the service left, and a token for it counts: %+v, %v", rec, err)
				}
			}
			w.remove(gateway.Services, "b", "svc")
			w.members("a", "b")
			w.serve("b", "svc")
			w.dead("all", token)
			if rows := w.tokens("a"); len(rows) != 0 {
				t.Errorf("the service went, and %d tokens stay", len(rows))
			}
		})
	}
}

// TestTokenGoesWithItsOwners: a token for a service of another member goes with its
// application, and with the consumer of that.
func TestTokenGoesWithItsOwners(t *testing.T) {
	for k, name := range map[*model.Kind]string{gateway.Applications: "app", gateway.Consumers: "eve"} {
		w := newGroupWorld(t)
		token := w.issued("all", w.serve("b", "svc"), "svc", forItself())["access_token"].(string)
		w.remove(k, "a", name)
		if rec, err := w.record("all", token); rec != nil || err != nil || len(w.tokens("a")) != 0 {
			t.Errorf("the %s is gone, and the token counts: %+v, %v", k.Name, rec, err)
		}
	}
}

// TestServiceOfTheSameIDElsewhere: a token is for the service of one member. One of
// another that has the same id does not take it, whoever is a member when. While both are,
// gateways hold the one that had the id first.
func TestServiceOfTheSameIDElsewhere(t *testing.T) {
	w := newGroupWorld(t)
	plugin := w.serve("b", "svc")
	token := w.issued("all", plugin, "svc", forItself())["access_token"].(string)
	w.write("b", gateway.Consumers, "bob", &gateway.Consumer{Username: "bob"})
	w.write("b", gateway.Applications, "bobs", application("bobs", "other", "bob"))
	bobs := w.issued("b", plugin, "svc", url.Values{"grant_type": {"client_credentials"}, "client_id": {"bobs"}, "client_secret": {"other"}})["access_token"].(string)
	own := w.serve("a", "svc")
	younger := w.issued("a", own, "svc", forItself())["access_token"].(string)
	for name, token := range map[string]string{"across": token, "of one member": bobs} {
		if rec, err := w.record("all", token); rec == nil || err != nil {
			t.Errorf("%s: a token for the first of two services: %+v, %v", name, rec, err)
		}
	}
	if rec, err := w.record("all", younger); rec != nil || err != nil {
		t.Errorf("a token for the second of two services: %+v, %v", rec, err)
	}
	for p, want := range map[string]int{plugin: 200, own: 503} {
		if status, doc := w.askAt("all", p, "svc", "token", forItself()); status != want {
			t.Errorf("a token for one of two services is asked of %s: %d %v, want %d", p, status, doc, want)
		}
	}
	// At its own control plane each is itself.
	if rec, err := w.record("a", token); rec != nil || err != nil {
		t.Errorf("the service of a takes a token for that of b: %+v, %v", rec, err)
	}
	if rec, err := w.record("b", bobs); rec == nil || err != nil {
		t.Errorf("b does not know a token of its own: %+v, %v", rec, err)
	}
	w.members("a")
	if rec, err := w.record("all", token); rec != nil || err != nil {
		t.Errorf("b left, and the service of a takes a token for that of b: %+v, %v", rec, err)
	}
	mine := w.issued("all", own, "svc", forItself())["access_token"].(string)
	w.remove(gateway.Services, "b", "svc")
	w.dead("all", token)
	if rec, err := w.record("all", mine); rec == nil || err != nil {
		t.Errorf("the service of b went, and took a token for that of a: %+v, %v", rec, err)
	}
}

// password asks for a token with a refresh token.
func password() url.Values {
	return url.Values{"grant_type": {"password"}, "provision_key": {"provision"}, "authenticated_userid": {"user"}}
}

func refreshing(doc map[string]any) url.Values {
	return url.Values{"grant_type": {"refresh_token"}, "refresh_token": {doc["refresh_token"].(string)}}
}

// TestRefreshAcrossMembers: what is bound to the service of another member is refreshed
// there, and nowhere else; spent once more it takes its family along.
func TestRefreshAcrossMembers(t *testing.T) {
	w := newGroupWorld(t)
	plugin := w.serve("b", "svc")
	first := w.issued("all", plugin, "svc", password())
	other := w.serve("b", "other")
	if status, doc := w.askAt("all", other, "other", "token", refreshing(first)); status != 400 {
		t.Errorf("another service refreshes it: %d %v", status, doc)
	}
	second := w.issued("all", plugin, "svc", refreshing(first))
	if rec, err := w.record("all", second["access_token"].(string)); rec == nil || err != nil || rec.Service != "svc" {
		t.Errorf("a refreshed token: %+v, %v", rec, err)
	}
	w.dead("all", first["access_token"].(string))
	// Without b, the service of the same id of a is another one.
	w.members("a")
	own := w.serve("a", "svc")
	if status, doc := w.askAt("all", own, "svc", "token", refreshing(second)); status != 400 {
		t.Errorf("the service of another member refreshes it: %d %v", status, doc)
	}
	everywhere := "everywhere"
	w.write("a", gateway.Plugins, everywhere, w.plugin("", func(c *gateway.OAuth2Config) { c.GlobalCredentials = true }))
	if status, doc := w.askAt("all", everywhere, "svc", "token", refreshing(second)); status != 400 {
		t.Errorf("a plugin for all services refreshes what is for none of them: %d %v", status, doc)
	}
	w.remove(gateway.Services, "a", "svc")
	w.members("a", "b")
	third := w.issued("all", plugin, "svc", refreshing(second))
	if status, doc := w.askAt("all", plugin, "svc", "revoke", url.Values{"token": {third["refresh_token"].(string)}}); status != 200 {
		t.Errorf("a token is not revoked: %d %v", status, doc)
	}
	w.dead("all", third["access_token"].(string))
}

// TestRevokedWhileItsServiceIsAway: a client gives up what counts nowhere at present.
func TestRevokedWhileItsServiceIsAway(t *testing.T) {
	w := newGroupWorld(t)
	token := w.issued("all", w.serve("b", "svc"), "svc", forItself())["access_token"].(string)
	w.members("a")
	everywhere := w.plugin("", func(c *gateway.OAuth2Config) { c.GlobalCredentials = true })
	w.write("a", gateway.Plugins, "everywhere", everywhere)
	form := url.Values{"token": {token}}
	if status, doc := w.askAt("all", "everywhere", "", "introspect", maps.Clone(form)); status != 200 || doc["active"] != false {
		t.Errorf("a token whose service is away: %d %v", status, doc)
	}
	if status, doc := w.askAt("all", "everywhere", "", "revoke", form); status != 200 {
		t.Errorf("it is not revoked: %d %v", status, doc)
	}
	w.members("a", "b")
	w.dead("all", token)
}

// codeOf has an end user agree, and returns the code.
func (w *groupWorld) codeOf(plugin, service string) url.Values {
	w.t.Helper()
	status, doc := w.askAt("all", plugin, service, "authorize", url.Values{
		"response_type": {"code"}, "provision_key": {"provision"}, "authenticated_userid": {"user"},
	})
	to, err := url.Parse(strings.TrimSpace(doc["redirect_uri"].(string)))
	if code := to.Query().Get("code"); status == 200 && err == nil && code != "" {
		return url.Values{"grant_type": {"authorization_code"}, "code": {code}}
	}
	w.t.Fatalf("no code: %d %v", status, doc)
	return nil
}

// TestCodeAcrossMembers: a code of an application of one member, issued by the plugin of
// another, is good at the service that it is for, and goes with that plugin.
func TestCodeAcrossMembers(t *testing.T) {
	w := newGroupWorld(t)
	plugin := w.serve("b", "svc")
	doc := w.issued("all", plugin, "svc", w.codeOf(plugin, "svc"))
	if rec, err := w.record("all", doc["access_token"].(string)); rec == nil || err != nil || rec.Service != "svc" || rec.UserID != "user" {
		t.Errorf("the token of a code: %+v, %v", rec, err)
	}
	// The plugin of b that is for all services refers to no service, its code to it.
	w.issued("all", "plugin", "", w.codeOf("plugin", ""))
	for name, lose := range map[string]func(){
		"its plugin is made anew": func() {
			w.remove(gateway.Plugins, "b", plugin)
			w.write("b", gateway.Plugins, plugin, w.plugin("svc"))
		},
		"its service is another member's": func() {
			w.members("a")
			w.write("a", gateway.Services, "svc", &gateway.Service{Name: "asvc"})
			w.write("a", gateway.Plugins, plugin, w.plugin("svc"))
		},
	} {
		code := w.codeOf(plugin, "svc")
		lose()
		if status, doc := w.askAt("all", plugin, "svc", "token", code); status != 400 {
			t.Errorf("%s, and the code is exchanged: %d %v", name, status, doc)
		}
		if name != "its plugin is made anew" {
			w.members("a", "b")
			w.remove(gateway.Services, "a", "svc")
		}
	}
}

// TestCodeOfANamesake: a code is for the plugin of one member. That of another that has the
// same id does not take it.
func TestCodeOfANamesake(t *testing.T) {
	w := newGroupWorld(t)
	code := w.codeOf("plugin", "")
	w.members("a")
	w.write("a", gateway.Plugins, "plugin", w.plugin("", func(c *gateway.OAuth2Config) { c.GlobalCredentials = true }))
	if status, doc := w.ask("token", code); status != 400 {
		t.Errorf("%d %v", status, doc)
	}
}

// overtaken writes something else first.
type overtaken struct {
	oauth.Writer
	by func()
}

// Write implements oauth.Writer.
func (o *overtaken) Write(ctx context.Context, class model.Class, fn func(store.Tx) error) (store.Commit, error) {
	if by := o.by; by != nil {
		o.by = nil
		by()
	}
	return o.Writer.Write(ctx, class, fn)
}

// TestServiceLeavesMeanwhile: what is issued for a service is issued while it is there.
func TestServiceLeavesMeanwhile(t *testing.T) {
	w := newGroupWorld(t)
	plugin := w.serve("b", "svc")
	w.server.Writer = &overtaken{w.gate, func() { w.members("a") }}
	if status, doc := w.askAt("all", plugin, "svc", "token", forItself()); status != 503 || len(w.tokens("a")) != 0 {
		t.Errorf("%d %v", status, doc)
	}
}

// TestApplicationsOfOneID: rows that name an application of the same id are not the
// client's if they are of another member.
func TestApplicationsOfOneID(t *testing.T) {
	w := newGroupWorld(t)
	w.write("b", gateway.Consumers, "bob", &gateway.Consumer{Username: "bob"})
	w.write("b", gateway.Applications, "app", application("bobs", "other", "bob"))
	bobs := w.issued("b", "plugin", "", url.Values{"grant_type": {"password"}, "provision_key": {"provision"}, "authenticated_userid": {"user"}, "client_id": {"bobs"}, "client_secret": {"other"}})
	if status, doc := w.ask("token", refreshing(bobs)); status == 200 {
		t.Errorf("an application refreshes what is its namesake's: %v", doc)
	}
	if _, doc := w.ask("introspect", url.Values{"token": {bobs["refresh_token"].(string)}}); doc["active"] == true {
		t.Errorf("an application is told of what is its namesake's: %v", doc)
	}
	for _, value := range []any{bobs["access_token"], bobs["refresh_token"]} {
		w.ask("revoke", url.Values{"token": {value.(string)}})
	}
	if rec, err := w.record("b", bobs["access_token"].(string)); rec == nil || err != nil {
		t.Errorf("an application revokes what is its namesake's: %+v, %v", rec, err)
	}
}

// TestRevocationsOfAGroup: whoever belongs to a member loses what they have there, by the
// API of the group and by that of the member. That of another member does not touch it.
func TestRevocationsOfAGroup(t *testing.T) {
	for name, by := range map[string]oauth.RevokeBy{
		"an application": {Credential: "app"}, "a consumer": {Consumer: "eve"}, "an end user": {UserID: "user"},
	} {
		t.Run(name, func(t *testing.T) {
			for scope, gone := range map[string][]string{"all": {"a", "b"}, "a": {"a"}, "b": {"b"}} {
				w := newGroupWorld(t)
				plugin := w.serve("b", "svc")
				w.write("b", gateway.Consumers, "bob", &gateway.Consumer{Username: "bob"})
				w.write("b", gateway.Applications, "bobs", application("bobs", "other", "bob"))
				tokens := map[string]string{"a": w.issued("all", plugin, "svc", password())["access_token"].(string)}
				form := password()
				form.Set("client_id", "bobs")
				form.Set("client_secret", "other")
				tokens["b"] = w.issued("all", plugin, "svc", form)["access_token"].(string)
				code := w.codeOf(plugin, "svc")
				if by.UserID == "" { // whom b does not know
					gone = slices.DeleteFunc(slices.Clone(gone), func(s string) bool { return s == "b" })
				}
				v := &oauth.Revocations{Store: w.db, Writer: w.gate, Resolver: w.groups}
				n, _, err := v.Revoke(t.Context(), scope, by)
				if unknown := scope == "b" && by.UserID == ""; n != len(gone) || fault.Is(err, fault.NotFound) != unknown || err != nil && !unknown {
					t.Fatalf("by %s: %d revoked, %v; want %v", scope, n, err, gone)
				}
				for of, token := range tokens {
					if slices.Contains(gone, of) {
						w.dead("all", token)
					} else if rec, err := w.record("all", token); rec == nil || err != nil {
						t.Errorf("by %s: the token of %s is gone: %v", scope, of, err)
					}
				}
				if status, doc := w.askAt("all", plugin, "svc", "token", code); (status == 200) == slices.Contains(gone, "a") {
					t.Errorf("by %s: a code of a is worth %d %v", scope, status, doc)
				}
			}
		})
	}
}

// TestServiceHasLeft: what was read of a group while requests were answered judges none that
// comes after a member has left, or has returned.
func TestServiceHasLeft(t *testing.T) {
	w := newGroupWorld(t)
	plugin := w.serve("b", "svc")
	for _, step := range []struct {
		members []string
		status  int
	}{{[]string{"a", "b"}, 200}, {[]string{"a"}, 503}, {[]string{"b"}, 400}, {[]string{"a", "b"}, 200}} {
		w.members(step.members...)
		for range 2 {
			if status, doc := w.askAt("all", plugin, "svc", "token", forItself()); status != step.status {
				t.Errorf("of %v: %d %v", step.members, status, doc)
			}
		}
	}
}
