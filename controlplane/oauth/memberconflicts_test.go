package oauth_test

import (
	"encoding/base64"
	"maps"
	"net/url"
	"testing"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/oauth"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/filter/contract"
)

// newRivals has, besides, bob with an application in b, and a plugin in each member that is
// for all services of it.
func newRivals(t *testing.T) *groupWorld {
	w := newGroupWorld(t)
	w.write("b", gateway.Consumers, "bob", &gateway.Consumer{Username: "bob"})
	w.write("b", gateway.Applications, "bobs", application("bobs", "other", "bob"))
	w.write("a", gateway.Plugins, "own", w.plugin("", func(c *gateway.OAuth2Config) { c.GlobalCredentials = true }))
	return w
}

func asBobs(form url.Values) url.Values {
	form = maps.Clone(form)
	form.Set("client_id", "bobs")
	form.Set("client_secret", "other")
	return form
}

// change replaces a resource.
func (w *groupWorld) change(scope string, k *model.Kind, name string, spec any) {
	w.t.Helper()
	if err := w.tx(func(tx store.Tx) error {
		_, err := tx.Update(&model.Resource{Kind: k, Scope: scope, Name: name, Spec: spec}, 0)
		return err
	}); err != nil {
		w.t.Fatal(err)
	}
}

// nobodys demands that a hash is refused for now, and that nothing is said to be so: what
// is unknown would be remembered.
func (w *groupWorld) nobodys(what string, hash contract.Hash) {
	w.t.Helper()
	if rec, _, _, err := w.source.Record(w.t.Context(), "all", hash); rec != nil || !fault.Is(err, fault.Unavailable) {
		w.t.Errorf("%s: %+v, %v", what, rec, err)
	}
}

// unanswered demands that nothing is answered about what two members have, and that nothing is
// written.
func (w *groupWorld) unanswered(endpoint string, form url.Values) {
	w.t.Helper()
	before := w.rows()
	if status, doc := w.ask(endpoint, form); status != 503 {
		w.t.Errorf("%s %v: %d %v", endpoint, form, status, doc)
	}
	if after := w.rows(); after != before {
		w.t.Errorf("%s %v wrote: %d rows, there were %d", endpoint, form, after, before)
	}
}

// rows counts what the OAuth server writes.
func (w *groupWorld) rows() (n int) {
	w.t.Helper()
	if err := w.db.View(w.t.Context(), func(r store.Reader) error {
		for _, k := range []*model.Kind{gateway.Tokens, gateway.Codes, gateway.SpentValues} {
			for _, scope := range []string{"a", "b"} {
				found, err := r.Count(k, store.Query{Scope: scope})
				if n += found; err != nil {
					return err
				}
			}
		}
		return nil
	}); err != nil {
		w.t.Fatal(err)
	}
	return n
}

// TestApplicationOfTwoMembers: nobody is the client whose client_id two members have. What either had before counts at its own gateways and not at those of the group.
func TestApplicationOfTwoMembers(t *testing.T) {
	w := newRivals(t)
	doc := w.issued("all", "plugin", "", password())
	token := doc["access_token"].(string)
	code := w.codeOf("plugin", "")
	w.change("b", gateway.Applications, "bobs", application("client", "other", "bob"))
	w.nobodys("a token of an application of two members", contract.HashToken([]byte(token)))
	for _, form := range []url.Values{forItself(), password(), refreshing(doc), code} {
		w.unanswered("token", form)
	}
	w.unanswered("introspect", url.Values{"token": {token}})
	w.unanswered("revoke", url.Values{"token": {token}})
	w.unanswered("authorize", url.Values{"response_type": {"code"}, "provision_key": {"provision"}, "authenticated_userid": {"user"}})
	basic := "Basic " + base64.StdEncoding.EncodeToString([]byte("client:secret"))
	if status, doc := w.askBasic("all", "plugin", basic, forItself()); status != 503 {
		t.Errorf("a header that two members know: %d %v", status, doc)
	}
	// The member is not held up by the other one.
	if status, doc := w.askAt("a", "own", "", "revoke", url.Values{"token": {token}}); status != 200 {
		t.Errorf("a member does not revoke for the conflict: %d %v", status, doc)
	}
	w.dead("a", token)
	mine := w.issued("a", "own", "", forItself())["access_token"].(string)
	if rec, err := w.record("a", mine); rec == nil || err != nil {
		t.Errorf("a member does not know its token for the conflict: %+v, %v", rec, err)
	}
	v := &oauth.Revocations{Store: w.db, Writer: w.gate, Resolver: w.groups}
	if n, _, err := v.Revoke(t.Context(), "all", oauth.RevokeBy{Credential: "app"}); n != 1 || err != nil {
		t.Errorf("%d revoked, %v", n, err)
	}
	w.dead("a", mine)
}

// TestConsumerOfTwoMembers: an upstream that is told a username takes it for one person.
func TestConsumerOfTwoMembers(t *testing.T) {
	w := newRivals(t)
	token := w.issued("all", "plugin", "", forItself())["access_token"].(string)
	w.write("a", gateway.Keys, "k", &gateway.Key{Key: "key", Consumer: "eve"})
	w.write("b", gateway.Consumers, "other", &gateway.Consumer{Username: "eve"})
	w.nobodys("a token of a consumer of two members", contract.HashToken([]byte(token)))
	w.nobodys("a key of a consumer of two members", contract.HashKey([]byte("key")))
	w.remove(gateway.Consumers, "b", "other")
	if rec, err := w.record("all", token); rec == nil || err != nil {
		t.Errorf("a member gave way: %+v, %v", rec, err)
	}
	w.write("b", gateway.Keys, "k", &gateway.Key{Key: "another", Consumer: "bob"})
	w.nobodys("a key of the id of another", contract.HashKey([]byte("key")))
}

// TestValuesOfTwoMembers: a token, a refresh token or a code that two members have is
// nobody's. Its owner can revoke it, and what the other member has of it stays as it is.
func TestValuesOfTwoMembers(t *testing.T) {
	w := newRivals(t)
	doc := w.issued("all", "plugin", "", password())
	access, refresh := doc["access_token"].(string), doc["refresh_token"].(string)
	code := w.codeOf("plugin", "")
	w.write("b", gateway.Tokens, "theirs", &gateway.Token{Credential: "bobs", TokenType: gateway.TokenBearer, AccessToken: access, RefreshToken: refresh})
	w.write("b", gateway.Codes, "theirs", &gateway.Code{Credential: "bobs", Plugin: "plugin", Code: code.Get("code"), DropAt: 1 << 50})
	w.nobodys("a token of two members", contract.HashToken([]byte(access)))
	w.unanswered("token", refreshing(doc))
	w.unanswered("token", asBobs(refreshing(doc)))
	w.unanswered("token", code)
	w.unanswered("token", asBobs(code))
	w.unanswered("introspect", url.Values{"token": {access}})
	w.unanswered("introspect", url.Values{"token": {refresh}})
	if status, doc := w.ask("revoke", url.Values{"token": {refresh}}); status != 200 {
		t.Errorf("a token is not revoked for the conflict: %d %v", status, doc)
	}
	w.dead("a", access)
	if rec, err := w.record("b", access); rec == nil || err != nil {
		t.Errorf("the token of the other member is gone: %+v, %v", rec, err)
	}
}

// TestTheftIsNoticedInAConflict: a refresh token that was spent revokes its family, whatever
// another member remembers of that value.
func TestTheftIsNoticedInAConflict(t *testing.T) {
	w := newRivals(t)
	stolen := gateway.TokenKey("stolen")
	for scope, app := range map[string]string{"a": "app", "b": "bobs"} {
		w.write(scope, gateway.Tokens, "of the family", &gateway.Token{Credential: app, TokenType: gateway.TokenBearer, AccessToken: "family of " + scope, Family: "family"})
		w.write(scope, gateway.SpentValues, "spent", &gateway.Spent{Value: stolen, Credential: app, Family: "family", DropAt: 1 << 50})
	}
	if status, doc := w.ask("token", url.Values{"grant_type": {"refresh_token"}, "refresh_token": {"stolen"}}); status != 400 {
		t.Errorf("a spent refresh token: %d %v", status, doc)
	}
	w.dead("a", "family of a")
	if rec, err := w.record("b", "family of b"); rec == nil || err != nil {
		t.Errorf("the family of another member went: %+v, %v", rec, err)
	}
}
