package freshness

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/engine"
	"github.com/meshgate/meshgate/filter/redisconn/redistest"
)

func (w *tenants) named(plane string, k *model.Kind, name string, spec any) {
	w.Helper()
	w.must(w.write(func(tx store.Tx) error {
		_, err := tx.Create(&model.Resource{Kind: k, Scope: plane, Name: name, Spec: spec})
		return err
	}))
}

// passes reports whether a request with a token passes on the route of a service, by the
// real cache and the real program.
func (n *node) passes(c credential, service, plane string) bool {
	n.w.Helper()
	p, err := engine.Compile(&contract.Chain{Route: "r", Service: service, ServicePlane: plane, Plugins: []contract.Plugin{{
		ID: "plugin", OAuth2: &contract.OAuth2{Header: "authorization"},
	}}})
	n.w.must(err)
	headers := make([][]byte, len(p.Headers()))
	headers[0] = []byte("Bearer " + c.value)
	v := p.Decide(&engine.Request{Path: []byte("/"), Headers: headers}, n.looksUp(c), make([]byte, engine.BufferSize))
	return v.Action == engine.Continue
}

// TestServiceLeftOut: two members have a service of one id, so the group leaves out the
// younger one. A token for it does not pass for one of the older, until that gives way.
func TestServiceLeftOut(t *testing.T) {
	for _, reach := range []string{"linked", "alone"} {
		t.Run(reach, func(t *testing.T) {
			w := startTenants(t)
			const id = "00000000-0000-4000-8000-00000000000a"
			tokens := map[string]credential{}
			for _, plane := range []string{"a", "b"} {
				w.named(plane, gateway.Services, id, &gateway.Service{Name: "s", Host: plane + ".test", Port: 80, Protocol: "http"})
				tokens[plane] = credential{gateway.Tokens, "for-" + plane}
				w.create(plane, gateway.Tokens, &gateway.Token{Credential: w.apps[plane], Service: id, AccessToken: tokens[plane].value, TokenType: "bearer", ExpiresIn: 7200})
			}
			group, own := w.node("group"), w.node("b")
			if reach == "alone" {
				group.alone()
				own.alone()
			}
			for range 2 {
				if !group.passes(tokens["a"], id, "a") || group.passes(tokens["b"], id, "a") {
					t.Error("a token for the service that is left out passes at the other one, or one for that does not")
				}
				if !own.passes(tokens["b"], id, "") {
					t.Error("at its own gateway the token does not pass")
				}
			}
			if reach == "alone" && !group.passes(tokens["b"], id, "b") {
				t.Error("once the other has given way, it does not pass")
			}
		})
	}
}

// TestClientIDOfTwo: a token of an application that has the client_id of another member's.
func TestClientIDOfTwo(t *testing.T) {
	w := startTenants(t)
	group := w.node("group")
	app := w.create("b", gateway.Applications, &gateway.Application{Consumer: w.people["b"], ClientID: "c-a", ClientSecret: "another"})
	c := credential{gateway.Tokens, "impersonates"}
	w.create("b", gateway.Tokens, &gateway.Token{Credential: app, AccessToken: c.value, TokenType: "bearer", ExpiresIn: 7200})
	group.refuses("a token of an application with another member's client_id", c)
	own := w.node("b")
	own.alone()
	own.accepts("at its own gateway, from Redis", c, "user-of-b")
}

// change has b's resource of a kind look otherwise, or makes one of that name.
func (w *tenants) change(k *model.Kind, name string, spec any) {
	w.Helper()
	w.must(w.write(func(tx store.Tx) error {
		res := &model.Resource{Kind: k, Scope: "b", Name: name, Spec: spec}
		_, err := tx.Update(res, 0)
		if fault.Is(err, fault.NotFound) {
			_, err = tx.Create(res)
		}
		return err
	}))
}

// shares are how b comes to have in common with a what upstreams are told, and gives way.
// key is the id of a's key.
var shares = map[string]func(w *tenants, key string) (undo func()){
	"client_id": func(w *tenants, _ string) func() {
		is := func(id string) {
			w.change(gateway.Applications, w.apps["b"], &gateway.Application{Consumer: w.people["b"], ClientID: id, ClientSecret: "s"})
		}
		is("c-a")
		return func() { is("c-b") }
	},
	"username": func(w *tenants, _ string) func() {
		is := func(name string) { w.change(gateway.Consumers, w.people["b"], &gateway.Consumer{Username: name}) }
		is("user-of-a")
		return func() { is("user-of-b") }
	},
	"id of a consumer": func(w *tenants, _ string) func() {
		w.change(gateway.Consumers, w.people["a"], &gateway.Consumer{Username: "someone"})
		w.create("b", gateway.Keys, &gateway.Key{Consumer: w.people["a"], Key: "of that id"})
		return func() {
			w.must(w.write(func(tx store.Tx) error { return tx.Delete(gateway.Consumers, "b", w.people["a"], 0) }))
		}
	},
	"id of a key": func(w *tenants, key string) func() {
		w.change(gateway.Keys, key, &gateway.Key{Consumer: w.people["b"], Key: "of that id"})
		return func() { w.must(w.write(func(tx store.Tx) error { return tx.Delete(gateway.Keys, "b", key, 0) })) }
	},
}

// TestMembersComeToShare: what upstreams are told is that of the member that had it first. What
// another member takes later lets nothing of it pass in the group, also not what passed before:
// from memory, from Redis, or out of reach of the control plane. The first one notices nothing,
// nowhere, and their own gateways go on.
func TestMembersComeToShare(t *testing.T) {
	for name, share := range shares {
		t.Run(name, func(t *testing.T) {
			w := startTenants(t)
			group, own := w.node("group"), w.node("a")
			away := &node{w: w, name: "cp/group/2", dir: filepath.Join(w.site.dir, "away")}
			w.must(os.MkdirAll(away.dir, 0o700))
			away.open()
			redistest.Until(t, "the gateway believes Redis", func() bool { s := away.cache.Stats(); return s.Leased && s.Epoch != 0 })
			kind := gateway.Tokens
			if name == "id of a key" {
				kind = gateway.Keys
			}
			of := map[string]credential{"a": {kind, "held-by-a"}, "b": {kind, "held-by-b"}}
			key := w.mint("a", of["a"])
			w.mint("b", of["b"])
			away.alone()
			for _, n := range []*node{group, away} {
				n.accepts("of its own", of["a"], "user-of-a")
				n.accepts("of its own", of["b"], "user-of-b")
			}
			undo := share(w, key)
			later := credential{gateway.Keys, "of that id"}
			if name == "client_id" || name == "username" {
				later = of["b"]
			}
			for _, n := range []*node{away, group, own} {
				n.accepts("of the one that had it first", of["a"], "user-of-a")
			}
			group.refuses("of the one that took it later", later)
			away.refuses("of the one that took it later, out of reach", later)
			at := w.node("b")
			if a, _ := at.asks(later); a != contract.Found {
				t.Errorf("at its own gateway: %d", a)
			}
			undo()
			group.accepts("of the other", of["b"], "user-of-b")
			away.comesToAccept("of the other, out of reach", of["b"], "user-of-b")
			group.accepts("of the first one", of["a"], "user-of-a")
		})
	}
}

// TestMembersCameToShareOutsideTheGroup: what was written while one of them was no member
// says nothing of the group that both are in, whatever the last change of it was.
func TestMembersCameToShareOutsideTheGroup(t *testing.T) {
	w := startTenants(t)
	w.must(w.members("a"))
	of := map[string]credential{"a": {gateway.Tokens, "held-by-a"}, "b": {gateway.Tokens, "held-by-b"}}
	shares["client_id"](w, "")
	w.mint("a", of["a"])
	w.mint("b", of["b"])
	w.must(w.members("a", "b")) // before the group has any gateway
	group := w.node("group")
	group.refuses("what another one had first", of["b"])
	group.accepts("of the one that had it first", of["a"], "user-of-a")
	w.must(w.members("b"))
	group.accepts("alone in the group", of["b"], "user-of-b")
	group.alone()
	group.comesToAccept("alone in the group, out of reach", of["b"], "user-of-b")
	w.must(w.members("a", "b"))
	group.refuses("what another one had first, out of reach", of["b"])
}
