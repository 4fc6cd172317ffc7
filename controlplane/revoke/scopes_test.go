package revoke

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/scopes/scopestest"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/filter/contract"
)

// byNode has nodes belong to the scope that their names say.
type byNode struct{}

// Authenticate implements [Authenticator].
func (byNode) Authenticate(_ context.Context, node, _ string) (Node, error) {
	return Node{ID: node, ControlPlane: strings.Split(node, "/")[1]}, nil
}

// newTenants is a world, in a bubble, with control planes and a group of some of them.
func newTenants(t *testing.T, members ...string) *world {
	t.Helper()
	return newTenantsWith(t, func(*Options) {}, members...)
}

// newTenantsWith is newTenants with other options.
func newTenantsWith(t *testing.T, tweak func(*Options), members ...string) *world {
	t.Helper()
	w := &world{t: t, virtual: true, tweak: func(o *Options) {
		o.Auth, o.Resolver = byNode{}, scopestest.Resolver{}
		tweak(o)
	}}
	w.init(nil)
	for _, plane := range []string{"a", "b"} {
		w.must(func(tx store.Tx) error {
			if _, err := tx.Create(&model.Resource{Kind: gateway.Consumers, Scope: plane, Name: w.owner, Spec: &gateway.Consumer{Username: "u"}}); err != nil {
				return err
			}
			_, err := tx.Create(&model.Resource{Kind: gateway.Applications, Scope: plane, Name: w.app, Spec: &gateway.Application{Consumer: w.owner, ClientID: "c", ClientSecret: "s"}})
			return err
		})
	}
	w.group(members...)
	return w
}

// group has the group consist of members.
func (w *world) group(members ...string) {
	w.t.Helper()
	w.must(func(tx store.Tx) error { return scopestest.Set(tx, "group", members...) })
}

// join connects a filter of a scope.
func (w *world) join(scope string, hello contract.Hello, accepts ...string) (*fake, contract.Welcome) {
	w.t.Helper()
	headers := contract.NodeHeader + ": cp/" + scope + "/1\r\n"
	for _, a := range accepts {
		headers += contract.AcceptHeader + ": " + a + "\r\n"
	}
	return w.connectAccepting(hello, headers)
}

// hold makes a token of a control plane.
func (w *world) hold(plane, value string) (name string) {
	w.t.Helper()
	name = uuid.NewString()
	w.must(func(tx store.Tx) error {
		r, err := tx.Create(&model.Resource{Kind: gateway.Tokens, Scope: plane, Name: name, Spec: &gateway.Token{
			Credential: w.app, AccessToken: value, TokenType: "bearer", ExpiresIn: 7200}})
		if err == nil {
			tx.Announce(r.Key(), store.Created)
		}
		return err
	})
	return name
}

func (w *world) drop(plane string, k *model.Kind, name string) error {
	return w.write(func(tx store.Tx) error { return tx.Delete(k, plane, name, 0) })
}

func tokensOf(m *contract.Invalidate) (out []contract.Hash) {
	for _, i := range m.Items {
		if i.Subject == contract.SubjectToken {
			out = append(out, i.Token)
		}
	}
	return out
}

func hashes(values ...string) (out []contract.Hash) {
	for _, v := range values {
		out = append(out, contract.HashToken([]byte(v)))
	}
	return out
}

func (f *fake) scopes() (s contract.Scopes) {
	f.t.Helper()
	if err := contract.DecodeJSON(f.expect(contract.FrameScopes), &s); err != nil {
		f.t.Fatal(err)
	}
	return s
}

// TestFiltersHearOfTheirOwn: a filter learns of no credential that another control plane
// holds, although all follow one log; whoever comes anew neither.
func TestFiltersHearOfTheirOwn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newTenants(t, scope, "b")
		for _, plane := range []string{scope, "b"} {
			w.hold(plane, "before-"+plane)
		}
		for _, tc := range []struct {
			of      string
			members []string
			hears   []string
		}{{scope, []string{scope}, []string{scope}}, {"b", []string{"b"}, []string{"b"}}, {"group", []string{"b", scope}, []string{scope, "b"}}, {"c", []string{"c"}, nil}} {
			f, welcome := w.join(tc.of, contract.Hello{Instance: tc.of}, contract.AcceptScopes)
			want := &contract.Scopes{Of: tc.of, Members: tc.members}
			if tc.of == "group" {
				if want.Since = welcome.Scopes.Since; want.Since == 0 {
					t.Error("the group is not told since when it stands")
				}
			}
			if diff := cmp.Diff(want, welcome.Scopes); diff != "" {
				t.Errorf("%s is told (-want +got):\n%s", tc.of, diff)
			}
			var before, after []string
			for _, plane := range tc.hears {
				before, after = append(before, "before-"+plane), append(after, "after-"+plane+tc.of)
			}
			if diff := cmp.Diff(hashes(before...), tokensOf(f.first)); diff != "" {
				t.Errorf("%s comes and hears (-want +got):\n%s", tc.of, diff)
			}
			var heard []contract.Hash
			done := async(func() error {
				for _, plane := range []string{scope, "b"} {
					w.hold(plane, "after-"+plane+tc.of)
				}
				return nil
			})
			for range 2 {
				m := f.invalidated()
				heard = append(heard, tokensOf(m)...)
				f.ack(m.To)
			}
			if err := <-done; err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff(hashes(after...), heard); diff != "" {
				t.Errorf("%s stays and hears (-want +got):\n%s", tc.of, diff)
			}
			for _, plane := range []string{scope, "b"} { // whoever comes next is told of the same
				if err := w.forget("after-" + plane + tc.of); err != nil {
					t.Fatal(err)
				}
			}
			f.conn.Close()
		}
	})
}

// forget takes what was remembered of a token out of the log.
func (w *world) forget(value string) error {
	w.r.mu.Lock()
	defer w.r.mu.Unlock()
	h := contract.HashToken([]byte(value))
	w.r.history.entries = slices.DeleteFunc(w.r.history.entries, func(e entry) bool { return e.inv.Token == h })
	return nil
}

// TestMembersChange: a change is answered when the filters of the group have applied it.
// What members that come have revoked before is told them first.
func TestMembersChange(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newTenants(t, scope)
		f, _ := w.join("group", contract.Hello{Instance: "i"}, contract.AcceptScopes)
		f.lease()
		name := w.holdUnheard(f, "b", "gone")
		done := async(func() error { return w.drop("b", gateway.Tokens, name) })
		f.ack(f.invalidated().To)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		done = async(func() error {
			return w.write(func(tx store.Tx) error { return scopestest.Set(tx, "group", scope, "b") })
		})
		if got := tokensOf(f.invalidated()); !slices.Contains(got, contract.HashToken([]byte("gone"))) {
			t.Errorf("told of %x", got)
		}
		if s := f.scopes(); !slices.Equal(s.Members, []string{"b", scope}) {
			t.Errorf("%+v", s)
		}
		to := f.invalidated().To
		stillWaits(t, "a change that is not applied", done)
		f.ack(to)
		if d, err := took(t, done); err != nil || d != 0 {
			t.Fatalf("%v after %v", err, d)
		}
		done = async(func() error { return w.write(func(tx store.Tx) error { return scopestest.Set(tx, "group", "b") }) })
		f.invalidated()
		if s := f.scopes(); !slices.Equal(s.Members, []string{"b"}) {
			t.Errorf("%+v", s)
		}
		f.ack(f.invalidated().To)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	})
}

// holdUnheard is hold for a filter that hears of nothing but the position.
func (w *world) holdUnheard(f *fake, plane, value string) (name string) {
	w.t.Helper()
	done := async(func() error { name = w.hold(plane, value); return nil })
	m := f.invalidated()
	f.ack(m.To)
	<-done
	if len(m.Items) > 0 {
		w.t.Errorf("heard of %+v", m.Items)
	}
	return name
}

// TestMembersChangeWithoutAFilter: one that goes on after the members have changed starts
// anew, whatever it has applied.
func TestMembersChangeWithoutAFilter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newTenants(t, scope, "b")
		f, welcome := w.join("group", contract.Hello{Instance: "i"}, contract.AcceptScopes)
		f.send(contract.FrameIntrospect, (&contract.Introspect{ID: 7}).Encode())
		f.expect(contract.FrameResult) // so its acknowledgement was read, too
		f.conn.Close()
		at := f.first.To
		again, next := w.join("group", contract.Hello{Instance: "i", Log: welcome.Log, Applied: at}, contract.AcceptScopes)
		if next.From != at {
			t.Errorf("nothing has changed, and it goes on at %d", next.From)
		}
		again.conn.Close()
		w.group("b")
		_, next = w.join("group", contract.Hello{Instance: "i", Log: welcome.Log, Applied: at}, contract.AcceptScopes)
		if next.From != 0 || !slices.Equal(next.Scopes.Members, []string{"b"}) {
			t.Errorf("welcomed with %+v", next)
		}
	})
}

// TestOlderFilterOfAGroup: one that does not understand whose credentials count is never told,
// gets records without that, and begins anew when it changes.
func TestOlderFilterOfAGroup(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newTenants(t, scope)
		w.hold(scope, "a")
		f, welcome := w.join(scope, contract.Hello{Instance: "own"})
		ask := func() *contract.Result {
			f.send(contract.FrameIntrospect, (&contract.Introspect{ID: 7, Token: contract.HashToken([]byte("a")), Plugin: "plugin"}).Encode())
			res, err := contract.DecodeResult(f.expect(contract.FrameResult))
			if err != nil {
				t.Fatal(err)
			}
			return res
		}
		if res := ask(); welcome.Scopes != nil || res.Answer != contract.Found || res.Record.Plane != "" {
			t.Errorf("%+v, %+v", welcome, res)
		}
		f, _ = w.join(scope, contract.Hello{Instance: "newer"}, contract.AcceptScopes)
		if res := ask(); res.Answer != contract.Found || res.Record.Plane != scope {
			t.Errorf("newer: %+v", res)
		}
		f, welcome = w.join("group", contract.Hello{Instance: "i"})
		at := f.first.To
		w.group("b")
		if _, _, err := contract.ReadFrame(f.in); err == nil {
			t.Error("its link goes on")
		}
		_, next := w.join("group", contract.Hello{Instance: "i", Log: welcome.Log, Applied: at})
		if next.From != 0 || next.Floor == 0 || next.Scopes != nil {
			t.Errorf("welcomed with %+v", next)
		}
	})
}

// TestReasonsOfOthers: that another control plane has revoked a value is not told.
func TestReasonsOfOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newTenants(t)
		if err := w.drop("b", gateway.Tokens, w.hold("b", "chosen")); err != nil {
			t.Fatal(err)
		}
		for of, want := range map[string]contract.Answer{"b": contract.Revoked, "c": contract.Unknown} {
			f, _ := w.join(of, contract.Hello{Instance: of}, contract.AcceptScopes, contract.AcceptReasons)
			f.send(contract.FrameIntrospect, (&contract.Introspect{ID: 7, Token: contract.HashToken([]byte("chosen")), Plugin: "plugin"}).Encode())
			res, err := contract.DecodeResult(f.expect(contract.FrameResult))
			if err != nil || res.Answer != want {
				t.Errorf("%s: %+v %v, want %d", of, res, err, want)
			}
		}
	})
}

// TestRedisHoldsWhatScopesConsistOf: of every scope that a filter was ever linked of, from its
// first link on, after every change, and of the epoch of the moment.
func TestRedisHoldsWhatScopesConsistOf(t *testing.T) {
	virtually(t, func(o *Options) { o.Auth, o.Resolver = byNode{}, scopestest.Resolver{} }, func(t *testing.T, w *world, redis *scripted) {
		expect := func(when string, want ...string) {
			t.Helper()
			w.settles(t)
			m, err := contract.ParseMembers(redis.get(contract.RedisMembersKey("group")))
			if err != nil || !slices.Equal(m.Members, want) || m.Epoch != w.trust().Epoch {
				t.Errorf("%s: %+v %v, want %v", when, m, err, want)
			}
		}
		w.group("a", "b")
		f, _ := w.pipe("cp/group/1", contract.Hello{Instance: "i"})
		expect("linked", "a", "b")
		f.cut()
		w.group("a")
		expect("one left", "a")
		redis.be(gone)
		done := async(func() error { return w.write(func(tx store.Tx) error { return scopestest.Set(tx, "group", "c") }) })
		<-done
		redis.be(fine)
		expect("others, while Redis was away", "c")
		redis.restore(map[string][]byte{})
		expect("emptied", "c")
		w.close(w.r)
		redis.restore(map[string][]byte{})
		w.open(nil)
		expect("another process", "c")
	})
}

// TestOwnersOfOneID: two control planes may give one id; what one revokes says nothing of the
// other's.
func TestOwnersOfOneID(t *testing.T) {
	virtually(t, func(o *Options) { o.Auth, o.Resolver = byNode{}, scopestest.Resolver{} }, func(t *testing.T, w *world, redis *scripted) {
		id := uuid.NewString()
		for _, plane := range []string{"a", "b"} {
			w.must(func(tx store.Tx) error {
				_, err := tx.Create(&model.Resource{Kind: gateway.Consumers, Scope: plane, Name: id, Spec: &gateway.Consumer{Username: "u"}})
				return err
			})
		}
		w.settles(t)
		if err := w.drop("a", gateway.Consumers, id); err != nil {
			t.Fatal(err)
		}
		f, err := contract.ParseFloor(redis.get(contract.RedisConsumerKey("a", id)))
		if err != nil || f.Revision == 0 || redis.get(contract.RedisConsumerKey("b", id)) != nil {
			t.Errorf("%+v %v, and of the other %q", f, err, redis.get(contract.RedisConsumerKey("b", id)))
		}
	})
}
