package oauth

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// addTokens stores n tokens of an application and a user.
func (w *world) addTokens(n int, app, user string) {
	w.t.Helper()
	if _, err := w.db.Update(context.Background(), model.Credential, func(tx store.Tx) error {
		for i := range n {
			name := fmt.Sprintf("%s-%s-%d", app, user, i)
			if _, err := tx.Create(&model.Resource{Kind: gateway.Tokens, Scope: scopeName, Name: name, Spec: &gateway.Token{
				Credential: app, AccessToken: name, AuthenticatedUserID: user, TokenType: TokenType,
			}}); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		w.t.Fatal(err)
	}
}

func TestRevocations(t *testing.T) {
	const many = revokeBatch + 7 // more than one batch
	for name, tc := range map[string]struct {
		by      RevokeBy
		n, left int
		codes   int
		code    fault.Code
	}{
		"an application":                {by: RevokeBy{Credential: "app"}, n: many + 3, left: 5, codes: 0},
		"a consumer":                    {by: RevokeBy{Consumer: "c1"}, n: many + 8, left: 0, codes: 0},
		"a user":                        {by: RevokeBy{UserID: "u"}, n: many + 5, left: 3, codes: 0},
		"an unknown user":               {by: RevokeBy{UserID: "x"}, left: many + 8, codes: 1},
		"an application without tokens": {by: RevokeBy{Credential: "hashed"}, left: many + 8, codes: 1},
		"nobody":                        {left: many + 8, codes: 1, code: fault.Invalid},
		"two at once":                   {by: RevokeBy{UserID: "u", Credential: "app"}, left: many + 8, codes: 1, code: fault.Invalid},
		"an unknown one":                {by: RevokeBy{Credential: "x"}, left: many + 8, codes: 1, code: fault.NotFound},
		"an unknown consumer":           {by: RevokeBy{Consumer: "x"}, left: many + 8, codes: 1, code: fault.NotFound},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, strict())
			w.newCode()
			w.addTokens(many, "app", "u")
			w.addTokens(3, "app", "v")
			w.addTokens(5, "rival", "u")
			v := &Revocations{Store: w.db, Writer: direct{Store: w.db}}
			n, c, err := v.Revoke(context.Background(), scopeName, tc.by)
			if n != tc.n || fault.CodeOf(err) != tc.code {
				t.Fatalf("%d, %v", n, err)
			}
			if err == nil && c.Revision != w.db.Revision() {
				t.Errorf("revision %d, want %d", c.Revision, w.db.Revision())
			}
			if left := w.count(gateway.Tokens); left != tc.left {
				t.Errorf("%d tokens are left, want %d", left, tc.left)
			}
			if left := w.count(gateway.Codes); left != tc.codes {
				t.Errorf("%d codes are left, want %d", left, tc.codes)
			}
		})
	}
}

// unpublished is a write path that commits but cannot tell the gateways. later is the result
// of waiting for them.
type unpublished struct {
	store.Store
	later error
}

// Settle implements Writer.
func (u unpublished) Settle(context.Context, ...string) error { return u.later }

// Write implements Writer.
func (u unpublished) Write(ctx context.Context, class model.Class, fn func(store.Tx) error) (store.Commit, error) {
	c, err := u.Update(ctx, class, fn)
	if err != nil || len(c.Changes) == 0 {
		return c, err
	}
	return c, fault.New(fault.Unavailable, "a gateway is out of reach")
}

func TestRevocationsThatCannotBeTold(t *testing.T) {
	w := newWorld(t, strict())
	away := fault.New(fault.Unavailable, "a gateway is out of reach")
	for name, later := range map[string]error{"and later can": nil, "and later neither": away} {
		w.addTokens(2*revokeBatch+3, "app", "u")
		v := &Revocations{Store: w.db, Writer: unpublished{w.db, later}}
		// A batch that could not be published does not keep the others from being revoked.
		n, _, err := v.Revoke(context.Background(), scopeName, RevokeBy{UserID: "u"})
		if n != 2*revokeBatch+3 || w.count(gateway.Tokens) != 0 || !errors.Is(err, later) {
			t.Errorf("%s: %d tokens, %d left: %v", name, n, w.count(gateway.Tokens), err)
		}
		// As long as the revocation is unconfirmed, "there is nothing" must not be the
		// answer.
		if n, _, err := v.Revoke(context.Background(), scopeName, RevokeBy{UserID: "u"}); n != 0 || !errors.Is(err, later) {
			t.Errorf("%s, again: %d tokens: %v", name, n, err)
		}
	}
	n, c, err := revokeListed(context.Background(), unpublished{w.db, nil}, gateway.Tokens, store.Query{Scope: scopeName, Index: gateway.IndexUser, Value: "u"})
	if n != 0 || len(c.Changes) != 0 || err != nil {
		t.Errorf("%d tokens with %d changes: %v", n, len(c.Changes), err)
	}
}

// closing is the write path of a store that closes after some commits.
type closing struct {
	store.Store
	left *int
}

// Settle implements Writer.
func (c closing) Settle(context.Context, ...string) error { return nil }

// Write implements Writer.
func (c closing) Write(ctx context.Context, class model.Class, fn func(store.Tx) error) (store.Commit, error) {
	if *c.left--; *c.left < 0 {
		return store.Commit{}, fault.New(fault.Unavailable, "the store is closed")
	}
	return c.Update(ctx, class, fn)
}

// Tokens that a closing store has not committed are not revoked. The caller must not be told
// that they are, even if no revocation is left to confirm.
func TestRevocationsThatAreNotCommitted(t *testing.T) {
	for commits := range 4 {
		w := newWorld(t, strict())
		w.newCode()
		w.addTokens(2*revokeBatch+3, "app", "u")
		n, _, err := (&Revocations{Store: w.db, Writer: closing{w.db, &commits}}).Revoke(t.Context(), scopeName, RevokeBy{UserID: "u"})
		if left := w.count(gateway.Tokens); !fault.Is(err, fault.Unavailable) || n+left != 2*revokeBatch+3 || left == 0 {
			t.Errorf("%d tokens, %d left: %v", n, left, err)
		}
	}
}

func TestRevokeEndpointNeverClaimsTooMuch(t *testing.T) {
	w := newWorld(t, strict())
	access, _ := w.newPair()
	notYet := fault.New(fault.Unavailable, "not yet")
	// The cases run in order: when the third runs, the second has revoked the token.
	for _, tc := range []struct {
		fails  string
		writer Writer
	}{
		{"store", failing{Store: w.db}}, {"publication", unpublished{w.db, notYet}}, {"publication by another", unpublished{w.db, notYet}},
	} {
		w.server.Writer = tc.writer
		rec := w.ask("POST", "/oauth2/revoke", form, asApp+"&token="+access, nil)
		if rec.Code != 503 {
			t.Errorf("%s fails: %d %s", tc.fails, rec.Code, rec.Body)
		}
	}
}

// TestFamilyIsRevokedInOneTransaction: a process that dies while it revokes a refresh token
// has revoked either the whole family or nothing.
func TestFamilyIsRevokedInOneTransaction(t *testing.T) {
	w := newWorld(t, strict())
	_, refresh := w.newPair()
	c := &counting{direct: direct{Store: w.db}, t: t}
	w.server.Writer = c
	if rec := w.ask("POST", "/oauth2/revoke", form, asApp+"&token="+refresh, nil); rec.Code != 200 {
		t.Fatalf("%d %s", rec.Code, rec.Body)
	}
	if len(c.sizes) != 1 || c.sizes[0] == 0 || w.count(gateway.Tokens) != 0 {
		t.Errorf("transactions of %v rows, %d tokens are left", c.sizes, w.count(gateway.Tokens))
	}
}

// overtaken is a write path on which somebody else has just committed the revocation of a
// token but not yet published it. A commit of its own is published at once; only Settle waits
// for the other one.
type overtaken struct {
	direct
	published chan struct{}
	asked     chan struct{}
}

// Settle implements Writer.
func (o overtaken) Settle(ctx context.Context, scopes ...string) error {
	o.asked <- struct{}{}
	select {
	case <-o.published:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// TestRevocationOfManyWaitsForTheOthers: a call that revokes everything of somebody may find
// less, because another call has just revoked a token. It reports success only when the other
// revocation is published as well, even if it has removed something itself.
func TestRevocationOfManyWaitsForTheOthers(t *testing.T) {
	for name, revoke := range map[string]func(w *world, o overtaken) error{
		"in bulk": func(w *world, o overtaken) error {
			w.addTokens(3, "app", "u")
			n, _, err := (&Revocations{Store: w.db, Writer: o}).Revoke(t.Context(), scopeName, RevokeBy{UserID: "u"})
			if n != 3 {
				t.Errorf("%d tokens", n)
			}
			return err
		},
		"a family": func(w *world, o overtaken) error {
			_, refresh := w.newPair()
			w.server.Writer = o
			if rec := w.ask("POST", "/oauth2/revoke", form, asApp+"&token="+refresh, nil); rec.Code != 200 {
				return fmt.Errorf("%d %s", rec.Code, rec.Body)
			}
			return nil
		},
		"a family whose refresh token came again": func(w *world, o overtaken) error {
			_, first := w.newPair()
			_, _, second := w.refresh(first)
			if status, _, _ := w.refresh(second); status != 200 {
				return fmt.Errorf("refreshed: %d", status)
			}
			w.server.Writer = o
			if status, _, _ := w.refresh(first); status != 400 || w.count(gateway.Tokens) != 0 {
				return fmt.Errorf("%d, %d tokens are left", status, w.count(gateway.Tokens))
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, strict())
			o := overtaken{direct{Store: w.db}, make(chan struct{}), make(chan struct{})}
			answered := make(chan error, 1)
			go func() { answered <- revoke(w, o) }()
			select {
			case <-o.asked:
			case err := <-answered:
				t.Fatalf("it is answered before the other revocation is published: %v", err)
			}
			close(o.published)
			if err := <-answered; err != nil {
				t.Error(err)
			}
		})
	}
}

// counting is a write path that notes how much each transaction changes. After each, somebody
// else writes.
type counting struct {
	direct
	t     testing.TB
	sizes []int
}

// Write implements Writer.
func (c *counting) Write(ctx context.Context, class model.Class, fn func(store.Tx) error) (store.Commit, error) {
	commit, err := c.direct.Write(ctx, class, fn)
	c.sizes = append(c.sizes, len(commit.Changes))
	if _, err := c.Update(ctx, model.Credential, func(tx store.Tx) error {
		_, err := tx.Create(&model.Resource{Kind: gateway.Consumers, Scope: scopeName, Name: fmt.Sprint("other", len(c.sizes)), Spec: &gateway.Consumer{Username: fmt.Sprint("other", len(c.sizes))}})
		return err
	}); err != nil {
		c.t.Error(err)
	}
	return commit, err
}

// TestRevocationsAreBounded: however many tokens are revoked, no transaction is larger than a
// batch, and others can write between two batches.
func TestRevocationsAreBounded(t *testing.T) {
	worlds(t, strict(), func(t *testing.T, w *world) {
		w.addTokens(4*revokeBatch+1, "app", "u")
		c := &counting{direct: direct{Store: w.db}, t: t}
		n, _, err := (&Revocations{Store: w.db, Writer: c}).Revoke(context.Background(), scopeName, RevokeBy{Credential: "app"})
		if err != nil || n != 4*revokeBatch+1 {
			t.Fatalf("%d, %v", n, err)
		}
		for _, size := range c.sizes {
			if size > revokeBatch {
				t.Errorf("a transaction changes %d rows", size)
			}
		}
		if len(c.sizes) < 5 {
			t.Errorf("%d transactions", len(c.sizes))
		}
	})
}

// The owner of the tokens may just have been deleted together with them. As long as that is
// unconfirmed, "not found" must not be the answer.
func TestRevocationsOfWhoIsGone(t *testing.T) {
	w := newWorld(t, strict())
	away := fault.New(fault.Unavailable, "a gateway is out of reach")
	for _, by := range []RevokeBy{{Credential: "gone"}, {Consumer: "gone"}} {
		v := &Revocations{Store: w.db, Writer: unpublished{w.db, away}}
		if _, _, err := v.Revoke(context.Background(), scopeName, by); !errors.Is(err, away) {
			t.Errorf("%+v, unconfirmed: %v", by, err)
		}
		v.Writer = unpublished{w.db, nil}
		if _, _, err := v.Revoke(context.Background(), scopeName, by); !fault.Is(err, fault.NotFound) {
			t.Errorf("%+v, confirmed: %v", by, err)
		}
	}
}
