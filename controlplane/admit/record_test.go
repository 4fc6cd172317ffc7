package admit_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/admit/admittest"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
)

// recorded lists the change records of a store, the oldest first.
func recorded(t *testing.T, s store.Store) (list []store.ChangeRecord) {
	t.Helper()
	if err := s.View(t.Context(), func(r store.Reader) (err error) {
		list, err = r.Records(store.RecordQuery{Oldest: true, Fleeting: true})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return list
}

// told returns a record in short form.
func told(r *store.ChangeRecord) string {
	out := fmt.Sprintf("%s %s %s", r.Actor.ID(), r.Op, r.Key.Kind)
	if r.Origin != "" {
		out = string(r.Origin) + " " + out
	}
	if r.Cause != nil {
		out += " with " + r.Cause.Kind
	}
	if r.Count > 0 {
		out += fmt.Sprintf(" x%d", r.Count)
	}
	return out
}

func allTold(list []store.ChangeRecord) (out []string) {
	for i := range list {
		out = append(out, told(&list[i]))
	}
	return out
}

// TestRecords: records name the author of a change and include its consequences. Traffic
// leaves no records.
func TestRecords(t *testing.T) {
	g, s, _ := setup(t)
	as := func(a model.Actor) context.Context { return model.WithActor(t.Context(), a) }
	app := application(t, g) // written by the part of the control plane that the gate belongs to
	ann := as(model.User("ann", "ops"))
	if _, err := g.Patch(ann, at(gateway.Applications, app.Name), admit.Input{Values: map[string]any{"name": "shop"}}); err != nil {
		t.Fatal(err)
	}
	holder := as(model.Actor{Kind: model.ActorToken, Name: "administration"})
	if _, err := g.Create(holder, at(gateway.Tokens, ""), admit.Input{Values: token(app, "a-token")}); err != nil {
		t.Fatal(err)
	}
	// What a client obtains through a gateway is traffic and not recorded.
	node := as(model.Node("cp/default/gateway-1"))
	if _, err := g.Create(node, at(gateway.Tokens, ""), admit.Input{Values: token(app, "of a client")}); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Write(node, model.Config, func(tx store.Tx) error {
		_, err := tx.Create(&model.Resource{Kind: gateway.Services, Scope: scope, Name: "n", Spec: &gateway.Service{Host: "h"}})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Write(model.WithOrigin(ann, model.OriginFile), model.Credential, func(tx store.Tx) error {
		_, err := tx.Create(&model.Resource{Kind: gateway.Instances, Scope: scope, Name: "kept for itself", Spec: &gateway.Instance{}})
		if err == nil {
			_, err = tx.Create(&model.Resource{Kind: gateway.Consumers, Scope: scope, Name: "c", Spec: &gateway.Consumer{Username: "eve"}})
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Write(ann, model.Config, func(store.Tx) error { return errors.New("no") }); err == nil {
		t.Fatal("it did not fail")
	}
	if _, err := g.Delete(ann, at(gateway.Consumers, "bob")); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{
		"system:test created consumer", "system:test created oauth2_credential", "api user:ann updated oauth2_credential",
		"api token:administration created oauth2_token", "proxy node:cp/default/gateway-1 created service", "file user:ann created consumer",
		"api user:ann deleted oauth2_token with consumer", "api user:ann deleted oauth2_token with consumer",
		"api user:ann deleted oauth2_credential with consumer", "api user:ann deleted consumer",
	}, allTold(recorded(t, s))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	list := recorded(t, s)
	if m := list[2].Members; len(m) != 1 || m[0].Path != "/name" || string(m[0].Old) != `"app"` || string(m[0].New) != `"shop"` {
		t.Errorf("%+v", m)
	}
	if r := list[2]; r.Key != app.Key() || r.Scoping != model.ControlPlane || !r.Sealed || len(r.Actor.Groups) != 0 {
		t.Errorf("%+v", r)
	}
}

// TestNodesThatChangeNothing: writes of nodes without changes leave no record. Such writes of
// others are recorded.
func TestNodesThatChangeNothing(t *testing.T) {
	g, s, _ := setup(t)
	write := func(a model.Actor, host string) {
		t.Helper()
		if _, err := g.Write(model.WithActor(t.Context(), a), model.Config, func(tx store.Tx) error {
			r := &model.Resource{Kind: gateway.Services, Scope: scope, Name: "n", Spec: &gateway.Service{Host: host}}
			_, err := tx.Update(r, 0)
			if fault.Is(err, fault.NotFound) {
				_, err = tx.Create(r)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	for _, host := range []string{"a", "a", "b", "b", "b"} {
		write(model.Node("cp/default/gateway-1"), host)
	}
	write(model.User("ann"), "b")
	if diff := cmp.Diff([]string{
		"proxy node:cp/default/gateway-1 created service", "proxy node:cp/default/gateway-1 updated service", "api user:ann updated service",
	}, allTold(recorded(t, s))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestRecordsOfInlined: server names that are created or deleted with a certificate are
// recorded as such.
func TestRecordsOfInlined(t *testing.T) {
	g, s, _ := setup(t)
	cert, key := admittest.Certificate(t)
	out := create(t, g, gateway.Certificates, map[string]any{"cert": cert, "key": key, "snis": []any{"a.example"}})
	if _, err := g.Patch(t.Context(), at(gateway.Certificates, out.Resource.Name), admit.Input{Values: map[string]any{"snis": []any{"b.example"}}}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{
		"system:test created certificate", "system:test created sni with certificate",
		"system:test updated certificate", "system:test deleted sni with certificate", "system:test created sni with certificate",
	}, allTold(recorded(t, s))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestManyTokensAreCounted: the deletion of an application with a thousand tokens makes few
// records, so that it pushes out no others.
func TestManyTokensAreCounted(t *testing.T) {
	g, s, _ := setup(t)
	app := application(t, g)
	node := model.WithActor(t.Context(), model.Node("cp/default/gateway-1"))
	for i := range 50 {
		if _, err := g.Create(node, at(gateway.Tokens, ""), admit.Input{Values: token(app, fmt.Sprint("token-", i))}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := g.Delete(t.Context(), at(gateway.Applications, app.Name)); err != nil {
		t.Fatal(err)
	}
	list := recorded(t, s)[2:]
	want := slices.Repeat([]string{"system:test deleted oauth2_token with oauth2_credential"}, 20)
	want = append(want, "system:test deleted oauth2_token with oauth2_credential x30", "system:test deleted oauth2_credential")
	if diff := cmp.Diff(want, allTold(list)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if r := list[20]; r.Key.Name != "" || len(r.Members) != 0 {
		t.Errorf("%+v", r)
	}
}

// TestExpiredRowsAreNoChange: the removal of expired rows is not recorded, because nobody
// deleted them.
func TestExpiredRowsAreNoChange(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	s := memstore.Open(memstore.Options{Now: func() time.Time { return now }})
	defer func() { _ = s.Close() }()
	g := admit.New(s, &admittest.Revoker{}, gateway.Kinds(), func() time.Time { return now }).As(model.System("test"))
	create(t, g, gateway.Consumers, map[string]any{"username": "bob"})
	key := map[string]any{"consumer": map[string]any{"username": "bob"}, "key": "again", "ttl": 1}
	create(t, g, gateway.Keys, key)
	now = now.Add(time.Minute)
	create(t, g, gateway.Keys, key)
	if diff := cmp.Diff([]string{
		"system:test created consumer", "system:test created keyauth_credential", "system:test created keyauth_credential",
	}, allTold(recorded(t, s))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
