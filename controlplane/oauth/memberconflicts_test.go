package oauth_test

import (
	"encoding/base64"
	"maps"
	"net/url"
	"testing"
	"time"

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

// leftOut demands that a hash is refused for now, and that nothing is said to be so: what is
// unknown would be remembered.
func (w *groupWorld) leftOut(what string, hash contract.Hash) {
	w.t.Helper()
	if rec, _, _, err := w.source.Record(w.t.Context(), "all", hash); rec != nil || !fault.Is(err, fault.Unavailable) {
		w.t.Errorf("%s: %+v, %v", what, rec, err)
	}
}

// counts demands that a token or a key counts in the group, as that of a member.
func (w *groupWorld) counts(what, member string, hash contract.Hash) {
	w.t.Helper()
	if rec, _, _, err := w.source.Record(w.t.Context(), "all", hash); rec == nil || err != nil || rec.Plane != member || rec.Own {
		w.t.Errorf("%s: %+v, %v", what, rec, err)
	}
}

// refused demands an answer, and that nothing is written.
func (w *groupWorld) refused(want int, endpoint string, form url.Values) {
	w.t.Helper()
	before := w.rows()
	if status, doc := w.ask(endpoint, form); status != want {
		w.t.Errorf("%s %v: %d %v, want %d", endpoint, form, status, doc, want)
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

// TestApplicationOfTwoMembers: the client of a client_id is that of the member that had it
// first, and notices nothing of the other. What the other has counts at its own gateways and
// not at those of the group, until the first one gives way.
func TestApplicationOfTwoMembers(t *testing.T) {
	w := newRivals(t)
	doc := w.issued("all", "plugin", "", password())
	token := doc["access_token"].(string)
	code := w.codeOf("plugin", "")
	_, theirs := w.ask("token", asBobs(forItself()))
	other := theirs["access_token"].(string)
	w.counts("a token of the other's", "b", contract.HashToken([]byte(other)))
	w.change("b", gateway.Applications, "bobs", application("client", "other", "bob"))

	w.counts("a token of the first's", "a", contract.HashToken([]byte(token)))
	for _, form := range []url.Values{forItself(), password(), refreshing(doc), code} {
		if status, doc := w.ask("token", form); status != 200 {
			t.Errorf("%v: %d %v", form, status, doc)
		}
	}
	basic := func(secret string) int {
		status, _ := w.askBasic("all", "plugin", "Basic "+base64.StdEncoding.EncodeToString([]byte("client:"+secret)), forItself())
		return status
	}
	if first, second := basic("secret"), basic("other"); first != 200 || second == 200 || second == 503 {
		t.Errorf("with the secret of the first one %d, with that of the other %d", first, second)
	}
	w.leftOut("a token of the other's", contract.HashToken([]byte(other)))
	w.refused(503, "introspect", url.Values{"token": {other}})
	if rec, err := w.record("b", other); rec == nil || err != nil || !rec.Own {
		t.Errorf("the other's own gateways do not know its token: %+v, %v", rec, err)
	}
	v := &oauth.Revocations{Store: w.db, Writer: w.gate, Resolver: w.groups}
	if n, _, err := v.Revoke(t.Context(), "all", oauth.RevokeBy{Credential: "bobs"}); n != 1 || err != nil {
		t.Errorf("%d revoked, %v", n, err)
	}
	w.dead("b", other)
	w.change("a", gateway.Applications, "app", application("another", "secret", "eve"))
	if status, doc := w.ask("token", url.Values{"grant_type": {"client_credentials"}, "client_id": {"client"}, "client_secret": {"other"}}); status != 200 {
		t.Errorf("the first one gave way: %d %v", status, doc)
	}
}

// TestNobodyTakesAClientOver: a writer of b can do nothing that makes the client of a, which had
// the client_id first, that of b, whether anything was announced in between or not.
func TestNobodyTakesAClientOver(t *testing.T) {
	w := newRivals(t)
	old := time.Unix(1, 0)
	take := func(res *model.Resource, write func(store.Tx, *model.Resource) error) {
		t.Helper()
		res.Kind, res.Scope = gateway.Applications, "b"
		if err := w.tx(func(tx store.Tx) error { return write(tx, res) }); err != nil {
			t.Fatal(err)
		}
	}
	create := func(tx store.Tx, res *model.Resource) error {
		_, err := tx.Create(res)
		return err
	}
	update := func(tx store.Tx, res *model.Resource) error {
		_, err := tx.Update(res, 0)
		return err
	}
	for client, attack := range map[string]func(client string){
		"made with an old date": func(client string) {
			take(&model.Resource{Name: "backdated", Created: old, Spec: application(client, "not "+client, "bob")}, create)
		},
		"renamed in the next commit that is announced": func(client string) {
			take(&model.Resource{Name: "bobs", Created: old, Spec: application(client, "not "+client, "bob")}, update)
		},
		"dated back later": func(client string) {
			take(&model.Resource{Name: "later", Spec: application(client, "not "+client, "bob")}, create)
			take(&model.Resource{Name: "later", Created: old, Spec: application(client, "not "+client, "bob")}, update)
		},
		"of a greater version and another name": func(client string) {
			take(&model.Resource{Name: "0", Created: old, Spec: application("before "+client, "before", "bob")}, create)
			take(&model.Resource{Name: "0", Created: old, Spec: application(client, "not "+client, "bob")}, update)
		},
	} {
		w.write("a", gateway.Applications, "of "+client, application(client, "is "+client, "eve"))
		attack(client)
		as := func(secret string) int {
			form := forItself()
			form.Set("client_id", client)
			form.Set("client_secret", secret)
			status, _ := w.ask("token", form)
			return status
		}
		if ours, theirs := as("is "+client), as("not "+client); ours != 200 || theirs != 400 && theirs != 401 {
			t.Errorf("%s: with the secret of the first one %d, with that of the other %d", client, ours, theirs)
		}
	}
}

// TestConsumerOfTwoMembers: an upstream that is told a username takes it for one person, which is
// that of the member that had it first.
func TestConsumerOfTwoMembers(t *testing.T) {
	w := newRivals(t)
	token := w.issued("all", "plugin", "", forItself())["access_token"].(string)
	w.write("a", gateway.Keys, "k", &gateway.Key{Key: "key", Consumer: "eve"})
	w.write("b", gateway.Keys, "l", &gateway.Key{Key: "another", Consumer: "bob"})
	mine, theirs := contract.HashKey([]byte("key")), contract.HashKey([]byte("another"))
	w.counts("a key of the other's", "b", theirs)
	for what, spec := range map[string]*gateway.Consumer{
		"username": {Username: "eve"}, "id": {Username: "someone"},
	} {
		switch what {
		case "username":
			w.change("b", gateway.Consumers, "bob", spec)
		case "id":
			w.write("b", gateway.Consumers, "eve", spec)
			w.write("b", gateway.Keys, "of eve", &gateway.Key{Key: "of b's eve", Consumer: "eve"})
		}
		w.counts(what+": a token of the first's", "a", contract.HashToken([]byte(token)))
		w.counts(what+": a key of the first's", "a", mine)
	}
	w.leftOut("a key of the other's consumer of that username", theirs)
	w.leftOut("a key of the other's consumer of that id", contract.HashKey([]byte("of b's eve")))
	w.remove(gateway.Consumers, "a", "eve")
	w.counts("the first one gave way, a key", "b", theirs)
	w.counts("the first one gave way, the id", "b", contract.HashKey([]byte("of b's eve")))
}

// TestKeyIDOfTwoMembers: upstreams are told the id of a key.
func TestKeyIDOfTwoMembers(t *testing.T) {
	w := newRivals(t)
	w.write("b", gateway.Keys, "k", &gateway.Key{Key: "first", Consumer: "bob"})
	w.write("a", gateway.Keys, "k", &gateway.Key{Key: "second", Consumer: "eve"})
	w.counts("the first one", "b", contract.HashKey([]byte("first")))
	w.leftOut("the second one", contract.HashKey([]byte("second")))
	w.remove(gateway.Keys, "b", "k")
	w.counts("the first one gave way", "a", contract.HashKey([]byte("second")))
}

// TestValuesOfTwoMembers: a token that two members have is that of the one that had it first. A
// refresh token or a code is whoever's client uses it, and what the other member has stays.
func TestValuesOfTwoMembers(t *testing.T) {
	w := newRivals(t)
	doc := w.issued("all", "plugin", "", password())
	access, refresh := doc["access_token"].(string), doc["refresh_token"].(string)
	code := w.codeOf("plugin", "")
	w.write("b", gateway.Tokens, "theirs", &gateway.Token{Credential: "bobs", TokenType: gateway.TokenBearer, AccessToken: access, RefreshToken: refresh})
	w.write("b", gateway.Codes, "theirs", &gateway.Code{Credential: "bobs", Plugin: "plugin", Code: code.Get("code"), DropAt: 1 << 50})
	w.counts("a token of two members", "a", contract.HashToken([]byte(access)))
	for what, form := range map[string]url.Values{"refresh token": refreshing(doc), "code": code} {
		status, own := w.ask("token", asBobs(form))
		made, _ := own["access_token"].(string)
		if rec, err := w.record("b", made); status != 200 || err != nil || rec.Credential.ID != "bobs" {
			t.Errorf("the other's client uses its %s: %d, %+v, %v", what, status, rec, err)
		}
	}
	w.write("b", gateway.Tokens, "theirs again", &gateway.Token{Credential: "bobs", TokenType: gateway.TokenBearer, AccessToken: access, RefreshToken: refresh})
	if status, doc := w.ask("introspect", url.Values{"token": {access}}); status != 200 || doc["client_id"] != "client" {
		t.Errorf("the token is %d %v", status, doc)
	}
	if status, doc := w.ask("token", code); status != 200 {
		t.Errorf("the code of the first one: %d %v", status, doc)
	}
	if status, doc := w.ask("revoke", url.Values{"token": {refresh}}); status != 200 {
		t.Errorf("a token is not revoked for the clash: %d %v", status, doc)
	}
	w.dead("a", access)
	w.counts("what the other one has of it", "b", contract.HashToken([]byte(access)))
}

// TestNamesakesAreNotToldThatTheyRevoked: a gateway of a group knows the first client of a
// client_id alone. Whoever is the other one, which anybody can say where clients are public, is
// not told that its token is dead; and a client that merely sends somebody else's is.
func TestNamesakesAreNotToldThatTheyRevoked(t *testing.T) {
	w := newRivals(t)
	w.write("b", gateway.Tokens, "lives", &gateway.Token{Credential: "bobs", TokenType: gateway.TokenBearer, AccessToken: "access of bobs", RefreshToken: "refresh of bobs"})
	w.write("b", gateway.SpentValues, "spent", &gateway.Spent{Value: gateway.TokenKey("spent of bobs"), Credential: "bobs", Family: "family", DropAt: 1 << 50})
	w.write("b", gateway.Applications, "third", application("third", "third", "bob"))
	w.write("b", gateway.Tokens, "of the third", &gateway.Token{Credential: "third", TokenType: gateway.TokenBearer, AccessToken: "access of third"})
	values := []string{"access of bobs", "refresh of bobs", "spent of bobs"}
	for _, value := range values {
		if status, doc := w.ask("revoke", url.Values{"token": {value}}); status != 200 {
			t.Errorf("the %s, of somebody else: %d %v", value, status, doc)
		}
	}
	w.change("b", gateway.Applications, "bobs", application("client", "other", "bob"))
	for _, value := range values {
		if status, doc := w.ask("revoke", url.Values{"token": {value}}); status != 200 {
			t.Errorf("the %s, by a client that has proven to be the first one: %d %v", value, status, doc)
		}
	}
	public := application("client", "secret", "eve")
	public.ClientType = gateway.ClientPublic
	w.change("a", gateway.Applications, "app", public)
	for _, value := range values {
		w.refused(503, "revoke", url.Values{"client_id": {"client"}, "token": {value}})
	}
	for _, value := range []string{"access of third", "nobody's"} {
		if status, doc := w.ask("revoke", url.Values{"client_id": {"client"}, "token": {value}}); status != 200 {
			t.Errorf("the %s: %d %v", value, status, doc)
		}
	}
	if rec, err := w.record("b", "access of bobs"); rec == nil || err != nil {
		t.Errorf("somebody else's token went: %+v, %v", rec, err)
	}
}

// TestTheftIsNoticedInAClash: a refresh token that was spent revokes its family, whatever
// another member remembers of that value, or has of it.
func TestTheftIsNoticedInAClash(t *testing.T) {
	w := newRivals(t)
	stolen := gateway.TokenKey("stolen")
	for scope, app := range map[string]string{"a": "app", "b": "bobs"} {
		w.write(scope, gateway.Tokens, "of the family", &gateway.Token{Credential: app, TokenType: gateway.TokenBearer, AccessToken: "family of " + scope, Family: "family"})
		w.write(scope, gateway.SpentValues, "spent", &gateway.Spent{Value: stolen, Credential: app, Family: "family", DropAt: 1 << 50})
	}
	w.write("b", gateway.Tokens, "planted", &gateway.Token{Credential: "bobs", TokenType: gateway.TokenBearer, AccessToken: "planted", RefreshToken: "stolen"})
	if status, doc := w.ask("token", url.Values{"grant_type": {"refresh_token"}, "refresh_token": {"stolen"}}); status != 400 {
		t.Errorf("a spent refresh token: %d %v", status, doc)
	}
	w.dead("a", "family of a")
	if rec, err := w.record("b", "family of b"); rec == nil || err != nil {
		t.Errorf("the family of another member went: %+v, %v", rec, err)
	}
}
