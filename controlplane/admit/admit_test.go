package admit_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/admit/admittest"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// classes is a store that records the durability of its commits.
type classes struct {
	store.Store
	mu   sync.Mutex
	seen []model.Class
}

// Update implements store.Store.
func (c *classes) Update(ctx context.Context, class model.Class, fn func(store.Tx) error) (store.Commit, error) {
	commit, err := c.Store.Update(ctx, class, fn)
	if err == nil {
		c.mu.Lock()
		c.seen = append(c.seen, class)
		c.mu.Unlock()
	}
	return commit, err
}

func (c *classes) last() model.Class {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.seen[len(c.seen)-1]
}

// watched is a revoker that notes what is published.
type watched struct {
	admittest.Revoker
	published []store.Commit
}

const scope = model.DefaultControlPlane

func setup(t *testing.T) (*admit.Gate, *classes, *watched) {
	t.Helper()
	s := &classes{Store: memstore.New()}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	r := &watched{}
	var mu sync.Mutex
	r.OnPublish = func(_ context.Context, c store.Commit) error {
		mu.Lock()
		defer mu.Unlock()
		r.published = append(r.published, c)
		return nil
	}
	t.Cleanup(func() {
		if open := r.Open.Load(); open != 0 {
			t.Errorf("%d writes were begun and are neither published nor abandoned", open)
		}
	})
	return admit.New(s, r, gateway.Kinds(), time.Now).As(model.System("test")), s, r
}

func at(k *model.Kind, key string) admit.Address {
	return admit.Address{Kind: k, Scope: scope, Key: key}
}

func create(t *testing.T, g *admit.Gate, k *model.Kind, values map[string]any) admit.Outcome {
	t.Helper()
	out, err := g.Create(t.Context(), at(k, ""), admit.Input{Values: values})
	if err != nil {
		t.Fatalf("create %s: %v", k.Name, err)
	}
	return out
}

func application(t *testing.T, g *admit.Gate) *model.Resource {
	t.Helper()
	create(t, g, gateway.Consumers, map[string]any{"username": "bob"})
	return create(t, g, gateway.Applications, map[string]any{
		"name": "app", "client_id": "id", "consumer": map[string]any{"username": "bob"}, "redirect_uris": []any{"http://a.example/"},
	}).Resource
}

func token(app *model.Resource, access any) map[string]any {
	return map[string]any{"credential": map[string]any{"id": app.Name}, "expires_in": 60, "access_token": access}
}

func TestRevocationsAreDurable(t *testing.T) {
	g, s, r := setup(t)
	app := application(t, g)
	if s.last() != model.Credential {
		t.Errorf("creating an application commits with class %d", s.last())
	}
	create(t, g, gateway.Tokens, token(app, "at"))
	for name, op := range map[string]func() error{
		"patch": func() error {
			_, err := g.Patch(t.Context(), at(gateway.Tokens, "at"), admit.Input{Values: map[string]any{"expires_in": 5}})
			return err
		},
		"replace": func() error {
			_, err := g.Replace(t.Context(), at(gateway.Tokens, "at"), admit.Input{Values: token(app, nil)})
			return err
		},
		"another writer": func() error {
			_, err := g.Write(t.Context(), model.Credential, func(tx store.Tx) error {
				res, err := tx.Find(gateway.Applications, scope, gateway.IndexClientID, "id")
				if err != nil {
					return err
				}
				_, err = tx.Update(&model.Resource{Kind: res.Kind, Scope: scope, Name: res.Name, Spec: res.Spec}, res.Version)
				return err
			})
			return err
		},
	} {
		if err := op(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if s.last() != model.Config {
			t.Errorf("%s commits with class %d", name, s.last())
		}
	}
	if _, err := g.Delete(t.Context(), at(gateway.Consumers, "bob")); err != nil || s.last() != model.Config {
		t.Errorf("delete: %v, class %d", err, s.last())
	}
	var ops []string
	for _, c := range r.published[len(r.published)-1].Changes {
		ops = append(ops, fmt.Sprint(c.Op, " ", c.Old.Kind.Name))
	}
	if len(ops) != 3 {
		t.Errorf("published %v, want consumer, application and token", ops)
	}
}

// TestGivenTokensAreAnnounced: negative caches may contain a value that a caller chose; they
// cannot contain one that was just generated.
func TestGivenTokensAreAnnounced(t *testing.T) {
	g, s, _ := setup(t)
	app := application(t, g)
	before := s.Revision()
	if create(t, g, gateway.Tokens, without(token(app, nil), "access_token")); s.Revision() != before {
		t.Error("a generated token was announced")
	}
	if create(t, g, gateway.Tokens, token(app, "chosen")); s.Revision() != before+1 {
		t.Error("a given token was not announced")
	}
	if _, err := g.Replace(t.Context(), at(gateway.Tokens, "by-key"), admit.Input{Values: without(token(app, nil), "access_token")}); err != nil || s.Revision() != before+2 {
		t.Errorf("a token given in the path was not announced: %v", err)
	}
}

func TestStageFailureCommitsNothing(t *testing.T) {
	g, s, r := setup(t)
	refused := errors.New("no")
	r.OnStage = func(store.Tx) error { return refused }
	if _, err := g.Create(t.Context(), at(gateway.Consumers, ""), admit.Input{Values: map[string]any{"username": "bob"}}); !errors.Is(err, refused) {
		t.Errorf("error %v", err)
	}
	if len(s.seen) != 0 || len(r.published) != 0 {
		t.Error("something was committed or published")
	}
}

func TestPublishOutlivesTheCaller(t *testing.T) {
	g, _, r := setup(t)
	ctx, cancel := context.WithCancel(t.Context())
	published, seen := 0, error(nil)
	r.OnPublish = func(ctx context.Context, _ store.Commit) error {
		cancel() // the client goes away while the revocation is published
		published, seen = published+1, ctx.Err()
		return nil
	}
	if _, err := g.Create(ctx, at(gateway.Consumers, ""), admit.Input{Values: map[string]any{"username": "bob"}}); err != nil {
		t.Fatal(err)
	}
	if published != 1 || ctx.Err() == nil || seen != nil {
		t.Errorf("published %d times with a context that says %v", published, seen)
	}
}

func TestPublishFailureKeepsTheOutcome(t *testing.T) {
	g, _, r := setup(t)
	r.OnPublish = func(context.Context, store.Commit) error { return fault.New(fault.Unavailable, "unknown") }
	out, err := g.Create(t.Context(), at(gateway.Consumers, ""), admit.Input{Values: map[string]any{"username": "bob"}})
	if !fault.Is(err, fault.Unavailable) || out.Resource == nil || out.Commit.Revision == 0 {
		t.Errorf("outcome %+v, %v", out, err)
	}
}

// TestAlreadyGoneIsSaidWhenItIsTrue: a deletion that finds nothing says so only after
// revocations by others are confirmed. If they are not, it returns their error.
func TestAlreadyGoneIsSaidWhenItIsTrue(t *testing.T) {
	g, _, r := setup(t)
	settled := 0
	var unsettled error
	r.OnSettle = func(context.Context, ...string) error { settled++; return unsettled }
	// The deletion of a service deletes the tokens that are bound to it.
	for _, k := range []*model.Kind{gateway.Tokens, gateway.Applications, gateway.Consumers, gateway.Keys, gateway.Services} {
		settled, unsettled = 0, nil
		if _, err := g.Delete(t.Context(), at(k, "gone")); !fault.Is(err, fault.NotFound) || settled != 1 {
			t.Errorf("%s: %v after waiting %d times", k.Name, err, settled)
		}
		unsettled = fault.New(fault.Unavailable, "not yet")
		if _, err := g.Delete(t.Context(), at(k, "gone")); !fault.Is(err, fault.Unavailable) {
			t.Errorf("%s: %v although a revocation is unconfirmed", k.Name, err)
		}
	}
	settled = 0
	if _, err := g.Delete(t.Context(), at(gateway.Routes, "gone")); !fault.Is(err, fault.NotFound) || settled != 0 {
		t.Errorf("a route that is gone waits for revocations: %v", err)
	}
}

// TestPatchesMergeConcurrently patches different fields at the same time. No patch may be
// lost.
func TestPatchesMergeConcurrently(t *testing.T) {
	g, s, _ := setup(t)
	create(t, g, gateway.Services, map[string]any{"name": "s", "host": "h"})
	fields := []string{"retries", "connect_timeout", "read_timeout", "write_timeout", "port"}
	var work sync.WaitGroup
	for _, name := range fields {
		work.Go(func() {
			if _, err := g.Patch(context.Background(), at(gateway.Services, "s"), admit.Input{Values: map[string]any{name: 77}}); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	work.Wait()
	err := s.View(t.Context(), func(r store.Reader) error {
		res, err := admit.Lookup(r, at(gateway.Services, "s"))
		if err != nil {
			return err
		}
		want := &gateway.Service{
			Name: "s", Protocol: "http", Host: "h", Port: 77, Retries: 77, ConnectTimeout: 77, ReadTimeout: 77, WriteTimeout: 77, Enabled: true,
		}
		if diff := cmp.Diff(want, res.Spec); diff != "" {
			t.Errorf("a patch was lost: %s", diff)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestReferencesBySecretsAreRefused(t *testing.T) {
	g, _, _ := setup(t)
	app := application(t, g)
	secret := app.Spec.(*gateway.Application).ClientSecret
	_, err := g.Create(t.Context(), at(gateway.Tokens, ""), admit.Input{Values: map[string]any{
		"credential": map[string]any{"client_secret": secret}, "expires_in": 1,
	}})
	if !fault.Is(err, fault.Invalid) {
		t.Errorf("error %v", err)
	}
}

// without removes a member of a body.
func without(body map[string]any, name string) map[string]any {
	delete(body, name)
	return body
}
