package view_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/controlplane/view"
)

func numbered(kind, n int) string { return fmt.Sprintf("%08d-0000-4000-8000-%012d", kind, n) }

// pools shows the upstreams of a state: by name, with their targets.
func pools(g *view.Gateway, names ...string) map[string]string {
	out := map[string]string{}
	for _, name := range names {
		u, ok := g.Of(g.Scope()).Upstream(name)
		if !ok {
			continue
		}
		var targets []string
		if t := g.Of(g.Scope()).Targets(u.ID); t != nil {
			for _, m := range t.List {
				targets = append(targets, fmt.Sprint(m.Spec.Target, "*", m.Spec.Weight))
			}
		}
		out[name] = u.ID[7:8] + u.ID[35:] + " " + strings.Join(targets, " ")
	}
	return out
}

func TestUpstreamsByName(t *testing.T) {
	r := open(t, memstore.New())
	at := func(rev uint64) *view.Gateway {
		t.Helper()
		return r.await(rev).State
	}
	one, two := numbered(5, 1), numbered(5, 2)
	update(t, r.store, put(gateway.Upstreams, one, &gateway.Upstream{Name: "One.test"}))
	update(t, r.store, put(gateway.Targets, numbered(6, 1), &gateway.UpstreamTarget{Upstream: one, Target: "b:1", Weight: 1}))
	g := at(update(t, r.store, put(gateway.Targets, numbered(6, 2), &gateway.UpstreamTarget{Upstream: one, Target: "a:1", Weight: 2})))
	if diff := cmp.Diff(map[string]string{"ONE.test": "51 a:1*2 b:1*1"}, pools(g, "ONE.test", "two.test")); diff != "" {
		t.Error(diff)
	}
	before, kept := g.Of(g.Scope()).Targets(one), g
	// Names are exchanged in one commit, and a target moves.
	g = at(update(t, r.store, func(tx store.Tx) error {
		for _, step := range []func(store.Tx) error{
			put(gateway.Upstreams, one, &gateway.Upstream{Name: "two.test"}), put(gateway.Upstreams, two, &gateway.Upstream{Name: "one.test"}),
			put(gateway.Targets, numbered(6, 2), &gateway.UpstreamTarget{Upstream: two, Target: "a:1"}),
		} {
			if err := step(tx); err != nil {
				return err
			}
		}
		return nil
	}))
	if diff := cmp.Diff(map[string]string{"one.test": "52 a:1*0", "two.test": "51 b:1*1"}, pools(g, "one.test", "two.test")); diff != "" {
		t.Error(diff)
	}
	if len(before.List) != 2 || kept.Of(g.Scope()).Targets(one) != before {
		t.Error("an earlier state has changed")
	}
	g = at(update(t, r.store, remove(gateway.Upstreams, one)))
	if diff := cmp.Diff(map[string]string{"one.test": "52 a:1*0"}, pools(g, "one.test", "two.test")); diff != "" {
		t.Error(diff)
	}
	if g.Of(g.Scope()).Targets(one) != nil {
		t.Error("targets of a deleted upstream are left")
	}
}

// TestViewsHoldNoKeys: what a view knows of a certificate is its version.
func TestViewsHoldNoKeys(t *testing.T) {
	r := open(t, memstore.New())
	id := numbered(7, 1)
	update(t, r.store, put(gateway.Certificates, id, &gateway.Certificate{Cert: "c", Key: "k"}))
	update(t, r.store, put(gateway.SNIs, numbered(8, 1), &gateway.SNI{Name: "a.test", Certificate: id}))
	update(t, r.store, put(gateway.CACertificates, numbered(9, 1), &gateway.CACertificate{Cert: "ca", CertDigest: "d"}))
	g := r.await(update(t, r.store, put(gateway.Certificates, id, &gateway.Certificate{Cert: "c", Key: "k", CertAlt: "c2", KeyAlt: "k2"}))).State
	got, _ := g.Of(g.Scope()).Certificate(id)
	if diff := cmp.Diff(&view.Certificate{ID: id, Scope: model.DefaultControlPlane, Version: 2, Alternative: true}, got); diff != "" {
		t.Error(diff)
	}
	if ca, ok := g.Of(g.Scope()).CACertificate(numbered(9, 1)); !ok || ca.Spec.Cert != "ca" {
		t.Errorf("authority %+v", ca)
	}
	if names := slices.Collect(g.SNIs()); len(names) != 1 || names[0].Spec.Name != "a.test" {
		t.Errorf("names %+v", names)
	}
	g = r.await(update(t, r.store, func(tx store.Tx) error {
		if err := remove(gateway.CACertificates, numbered(9, 1))(tx); err != nil {
			return err
		}
		return remove(gateway.Certificates, id)(tx)
	})).State
	_, certificate := g.Of(g.Scope()).Certificate(id)
	_, ca := g.Of(g.Scope()).CACertificate(numbered(9, 1))
	if certificate || ca || len(slices.Collect(g.SNIs())) != 0 {
		t.Error("something deleted is left")
	}
}

// TestUpstreamsFollowedAreUpstreamsLoaded: however upstreams and targets change,
// a state that followed shows what a state that is loaded does.
func TestUpstreamsFollowedAreUpstreamsLoaded(t *testing.T) {
	r := open(t, memstore.New())
	names := []string{"a.test", "b.test", "c.test"}
	random := rand.New(rand.NewPCG(1, 2))
	change := func() func(store.Tx) error {
		upstream, target := numbered(5, random.IntN(4)), numbered(6, random.IntN(6))
		return [...]func(store.Tx) error{
			put(gateway.Upstreams, upstream, &gateway.Upstream{Name: names[random.IntN(3)]}),
			put(gateway.Targets, target, &gateway.UpstreamTarget{Upstream: upstream, Target: fmt.Sprint("h:", 1+random.IntN(3)), Weight: random.IntN(2)}),
			remove(gateway.Upstreams, upstream), remove(gateway.Targets, target),
		}[random.IntN(4)]
	}
	done := 0
	for range 400 {
		changes := []func(store.Tx) error{change(), change(), change()}
		c, err := r.store.Update(r.ctx, model.Config, func(tx store.Tx) error {
			for _, step := range changes {
				if err := step(tx); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			continue // names taken, references to nothing
		}
		done++
		var want *view.Gateway
		err = r.store.View(r.ctx, func(reader store.Reader) (err error) {
			want, err = view.Load(model.DefaultControlPlane, reader)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(pools(want, names...), pools(r.await(c.Revision).State, names...)); diff != "" {
			t.Fatal(diff)
		}
	}
	if done < 20 {
		t.Errorf("only %d commits", done)
	}
}
