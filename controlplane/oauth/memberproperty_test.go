package oauth_test

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/store"
)

// id is what is called so in a member.
type id struct{ scope, name string }

// issuedToken is for a service of one member, and belongs to an application of another.
type issuedToken struct {
	app, service id
	value        string
}

// unionOracle knows what there is, by loops.
type unionOracle struct {
	members map[string]bool
	apps    map[id]bool
	// services say as the how manieth they were made.
	services map[id]int
	made     int
	// tokens are there until their application or their service goes.
	tokens map[string]issuedToken
}

// first reports whether no other member had a service of the name before.
func (o *unionOracle) first(s id) bool {
	for other, made := range o.services {
		if other.name == s.name && o.members[other.scope] && made < o.services[s] {
			return false
		}
	}
	return true
}

// issues is what a gateway of the group answers who asks for a token.
func (o *unionOracle) issues(app, service id) int {
	switch {
	case !o.members[service.scope] || o.services[service] == 0 || !o.first(service):
		return 503
	case !o.members[app.scope] || !o.apps[app]:
		return 400 // a stranger
	}
	return 200
}

// counts reports whether a token is good at gateways of the group.
func (o *unionOracle) counts(t issuedToken) bool {
	return o.tokens[t.value] != issuedToken{} && o.members[t.app.scope] && o.members[t.service.scope] && o.first(t.service)
}

// drop takes what goes with something.
func (o *unionOracle) drop(gone func(issuedToken) bool) {
	maps.DeleteFunc(o.tokens, func(_ string, t issuedToken) bool { return gone(t) })
}

var (
	planes = []string{"a", "b", "c"}
	names  = []string{"x", "y"}
)

// TestTokensOfAGroupAgreeWithALoop has members join and leave, applications and services
// of few names come and go, and tokens issued by gateways of the group. After each step
// every token that was ever issued is looked up, by the group and by each member.
func TestTokensOfAGroupAgreeWithALoop(t *testing.T) {
	issued, refused, clashes := 0, 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		w := newGroupWorld(t)
		for _, scope := range planes {
			w.write(scope, gateway.Consumers, "of "+scope, &gateway.Consumer{Username: "of " + scope})
		}
		o := &unionOracle{members: map[string]bool{"a": true, "b": true}, apps: map[id]bool{}, services: map[id]int{}, tokens: map[string]issuedToken{}}
		var ever []issuedToken
		some := func(what string) id {
			return id{rapid.SampledFrom(planes).Draw(rt, what+" of"), rapid.SampledFrom(names).Draw(rt, what)}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"members": func(rt *rapid.T) {
				list := rapid.SliceOfNDistinct(rapid.SampledFrom(planes), 1, 3, rapid.ID[string]).Draw(rt, "members")
				w.members(list...)
				clear(o.members)
				for _, scope := range list {
					o.members[scope] = true
				}
			},
			"service": func(rt *rapid.T) {
				s := some("service")
				if o.services[s] > 0 {
					w.remove(gateway.Services, s.scope, s.name)
					delete(o.services, s)
					o.drop(func(t issuedToken) bool { return t.service == s })
					return
				}
				w.serve(s.scope, s.name)
				o.made++
				o.services[s] = o.made
			},
			"application": func(rt *rapid.T) {
				a := some("application")
				if o.apps[a] {
					w.remove(gateway.Applications, a.scope, a.name)
					delete(o.apps, a)
					o.drop(func(t issuedToken) bool { return t.app == a })
					return
				}
				w.write(a.scope, gateway.Applications, a.name, application(client(a), "secret of "+client(a), "of "+a.scope))
				o.apps[a] = true
			},
			"token": func(rt *rapid.T) {
				a, s := some("application"), some("service")
				form := url.Values{"grant_type": {"client_credentials"}, "client_id": {client(a)}, "client_secret": {"secret of " + client(a)}}
				status, doc := w.askAt("all", "plugin-"+s.scope+"-"+s.name, s.name, "token", form)
				if want := o.issues(a, s); status != want {
					rt.Fatalf("a token of %v for %v: %d %v, want %d", a, s, status, doc, want)
				}
				if status != 200 {
					refused++
					return
				}
				token := issuedToken{a, s, doc["access_token"].(string)}
				o.tokens[token.value], ever, issued = token, append(ever, token), issued+1
			},
			"": func(rt *rapid.T) {
				for _, token := range ever {
					clashes += hold(rt, w, o, token)
				}
				holdRows(rt, w, o)
			},
		})
	})
	if issued == 0 || refused == 0 || clashes == 0 {
		t.Errorf("%d tokens, %d refusals, %d left out: the test shows little", issued, refused, clashes)
	}
}

func client(a id) string { return fmt.Sprintf("%s.%s", a.scope, a.name) }

// hold looks a token up, and reports how often its service was left out.
func hold(rt *rapid.T, w *groupWorld, o *unionOracle, token issuedToken) (clashes int) {
	good := o.counts(token)
	if rec, err := w.record("all", token.value); (rec != nil) != good || err != nil {
		rt.Fatalf("%+v: %+v, %v; want it good %v", token, rec, err, good)
	}
	for _, scope := range planes {
		good := o.tokens[token.value] != issuedToken{} && scope == token.app.scope && scope == token.service.scope
		if rec, err := w.record(scope, token.value); (rec != nil) != good || err != nil {
			rt.Fatalf("%+v in %s: %+v, %v; want it good %v", token, scope, rec, err, good)
		}
	}
	if o.services[token.service] > 0 && o.members[token.service.scope] && !o.first(token.service) {
		return 1
	}
	return 0
}

// holdRows compares the tokens that are stored.
func holdRows(rt *rapid.T, w *groupWorld, o *unionOracle) {
	var got []string
	if err := w.db.View(w.t.Context(), func(r store.Reader) error {
		for _, scope := range planes {
			list, err := r.List(gateway.Tokens, store.Query{Scope: scope})
			if err != nil {
				return err
			}
			for _, res := range list {
				got = append(got, res.Spec.(*gateway.Token).AccessToken)
			}
		}
		return nil
	}); err != nil {
		rt.Fatal(err)
	}
	slices.Sort(got)
	if want := slices.Sorted(maps.Keys(o.tokens)); !slices.Equal(got, want) {
		rt.Fatalf("tokens %v, want %v", got, want)
	}
}
