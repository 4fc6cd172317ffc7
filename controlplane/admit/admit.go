// Package admit is the only write path: APIs, declarative sync and the OAuth server use it.
// It completes and validates entities, checks them against others, and compares and swaps
// inside one transaction. It stages revocations in that transaction and publishes them
// afterwards, so that no writer can forget to revoke.
//
// Slow work, such as hashing, happens before the transaction.
package admit

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/meshgate/meshgate/controlplane/changes"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/scopes"
	"github.com/meshgate/meshgate/controlplane/store"
)

// Revoker publishes revocations; see docs/adr/0003-freshness.md.
type Revoker interface {
	// Stage adds to a transaction what its changes require, such as tombstones. Like the
	// transaction, it may run more than once.
	Stage(tx store.Tx) error
	// Begin announces a write before its transaction. Another writer that finds its own work
	// done by that transaction can then wait for the publication. The caller must call one of
	// the two functions, once. It calls neither if it is not known whether the transaction
	// was committed ([store.ErrUndecided]).
	//
	// publish returns when no filter answers from the state before the commit. A fault of
	// code Unavailable says that this is not certain; the commit stands nevertheless. publish
	// bounds its own duration. Its context is not cancelled when the caller leaves, because a
	// revocation must not depend on the patience of its client. abandon says that nothing was
	// committed.
	Begin() (publish func(ctx context.Context, c store.Commit) error, abandon func())
	// Settle returns when every write that had begun is published and no revocation is
	// unconfirmed by a filter that accepts credentials of some scopes, or of any if none is
	// given. Callers wait for it before they answer "there is nothing to revoke": somebody
	// else may have just removed it, and a filter may not know yet. Unavailable says that
	// this is not certain.
	Settle(ctx context.Context, scopes ...string) error
}

// Gate is the write path. It is safe for concurrent use.
type Gate struct {
	store   store.Store
	revoker Revoker
	kinds   map[string]*model.Kind
	now     func() time.Time
	// actor is the author of writes whose context has none.
	actor model.Actor
	// resolver tells which scopes are read-only. It does not change once the gate is used.
	resolver scopes.Resolver
	// hooks are called for documents. They do not change once the gate is used.
	hooks map[*model.Kind][]Hook
	// completions are what this control plane adds to documents. They do not change once the gate is used.
	completions map[*model.Kind]Completion
	// companions write what follows from the changes of a transaction.
	companions []func(store.Tx) error
	// reporters are told of the changes of a transaction.
	reporters []Reporter
	// lines are shared by all gates that As has made.
	lines *lines
}

// New returns a gate. kinds are the kinds for typed operations and references. now is the
// clock for creation times and lifetimes.
func New(s store.Store, r Revoker, kinds []*model.Kind, now func() time.Time) *Gate {
	g := &Gate{store: s, revoker: r, kinds: make(map[string]*model.Kind, len(kinds)), now: now, resolver: scopes.Each{}, hooks: map[*model.Kind][]Hook{}, completions: map[*model.Kind]Completion{}, lines: &lines{of: map[model.Key]*line{}}}
	for _, k := range kinds {
		g.kinds[k.Name] = k
	}
	return g
}

// Resolve makes the gate refuse writes to scopes that a resolver declares read-only. It must
// be called before the gate is used.
func (g *Gate) Resolve(r scopes.Resolver) { g.resolver = r }

// Accompany has fn write what follows from each transaction, in that transaction. It must be called
// before the gate is used, and before As.
func (g *Gate) Accompany(fn func(store.Tx) error) { g.companions = append(g.companions, fn) }

// Reporter writes what is told of changes, in their transaction and under the context of their write. It
// is not asked about writes that are undone.
type Reporter func(ctx context.Context, tx store.Tx, made []changes.Entry) error

// Report has fn told of the changes of each transaction that has any that are recorded. It must be called
// before the gate is used, and before As.
func (g *Gate) Report(fn Reporter) { g.reporters = append(g.reporters, fn) }

// Kinds lists the kinds that the gate knows, in no particular order.
func (g *Gate) Kinds() []*model.Kind { return slices.Collect(maps.Values(g.kinds)) }

// As returns the gate for a part of the control plane that writes by itself. The actor is the
// author of its writes, unless their context has another one. Hooks are shared with g.
func (g *Gate) As(a model.Actor) *Gate {
	own := *g
	own.actor = a
	return &own
}

// by returns the context of a write with its actor. A write without an actor is a mistake in
// the program.
func (g *Gate) by(ctx context.Context) (context.Context, error) {
	if _, ok := model.ActorOf(ctx); ok {
		return ctx, nil
	}
	if !g.actor.Known() {
		return nil, fault.New(fault.Internal, "a write does not say who makes it")
	}
	return model.WithActor(ctx, g.actor), nil
}

// errStricter rolls back a transaction that turned out to be a revocation.
var errStricter = errors.New("the transaction revokes and needs a stricter durability")

// Write runs fn in a transaction, stages what its changes revoke, commits, and publishes. A
// transaction that changes or removes credentials is committed with the durability of
// [model.Config], whatever class says: a power failure must not undo a revocation. fn may run
// more than once.
//
// The context has the author of the write (see [model.WithActor]), which is visible while
// changes are staged, stored and published. Without an actor, the error is Internal.
//
// It returns [store.ErrUndecided] if the process ends before it is known whether the
// transaction was committed. The end of ctx does not end the wait for that.
//
// If the returned commit has changes although there is an error, the commit stands, and only
// its publication has failed.
//
// Changes for administrators are recorded in the same transaction; see package changes. Under
// a context of [Rehearse], nothing is committed.
func (g *Gate) Write(ctx context.Context, class model.Class, fn func(store.Tx) error) (store.Commit, error) {
	return g.write(ctx, class, func(tx store.Tx) (subject model.Key, err error) { return subject, fn(tx) })
}

// work is the content of a transaction. It returns the requested resource, whose creation or
// deletion is the cause of all others.
type work func(store.Tx) (subject model.Key, err error)

func (g *Gate) write(ctx context.Context, class model.Class, fn work) (store.Commit, error) {
	ctx, err := g.by(ctx)
	if err != nil {
		return store.Commit{}, err
	}
	if r := rehearsalOf(ctx); r != nil {
		return g.rehearse(ctx, r, fn)
	}
	publish, abandon := g.revoker.Begin()
	abandoned := true // unless it turns out otherwise; a panic commits nothing
	defer func() {
		if abandoned {
			abandon()
		}
	}()
	commit, err := g.update(ctx, class, fn)
	if errors.Is(err, errStricter) {
		commit, err = g.update(ctx, model.Config, fn)
	}
	// A write that may have been committed is neither published nor abandoned. What it may
	// have revoked stays unconfirmed as long as this process lives. The next process
	// publishes what it finds.
	abandoned = err != nil && !errors.Is(err, store.ErrUndecided)
	if err != nil {
		return store.Commit{}, err
	}
	return commit, publish(context.WithoutCancel(ctx), commit)
}

// Settle returns when nothing that was revoked before can still be accepted by gateways that
// accept credentials of some scopes, or of any if none is given, or an error that says that
// this is not certain (Unavailable). Callers that find nothing to revoke must call it before
// they say so, with the scopes in which they looked.
func (g *Gate) Settle(ctx context.Context, scopes ...string) error {
	return g.revoker.Settle(context.WithoutCancel(ctx), scopes...)
}

func (g *Gate) update(ctx context.Context, class model.Class, fn work) (store.Commit, error) {
	return g.store.Update(ctx, class, func(tx store.Tx) error {
		_, err := g.enact(ctx, tx, class, fn)
		return err
	})
}

// enact makes everything of a write that is in its transaction.
func (g *Gate) enact(ctx context.Context, tx store.Tx, class model.Class, fn work) (subject model.Key, err error) {
	if subject, err = fn(tx); err != nil {
		return subject, err
	}
	for _, follow := range g.companions {
		if err := follow(tx); err != nil {
			return subject, err
		}
	}
	if err := g.writable(tx); err != nil {
		return subject, err
	}
	if err := g.vacant(tx); err != nil {
		return subject, err
	}
	if class != model.Config && revokes(tx.Changes()) {
		return subject, errStricter
	}
	if err := g.revoker.Stage(tx); err != nil {
		return subject, err
	}
	return subject, g.record(ctx, tx, subject)
}

// writable refuses a transaction that writes into a scope which consists of others, or creates
// something in one that there is not.
func (g *Gate) writable(tx store.Tx) error {
	for _, c := range tx.Changes() {
		res := c.New
		if res == nil {
			res = c.Old
		}
		if res.Kind.Scoping != model.ControlPlane {
			continue
		}
		refused, err := g.resolver.ReadOnly(tx, res.Key())
		if err != nil {
			return err
		}
		if refused {
			return fault.New(fault.Forbidden, "%q is a group of control planes and has no %s of its own: write to one of its members",
				res.Scope, res.Kind.Plural())
		}
		if err := g.exists(tx, c); err != nil {
			return err
		}
	}
	return nil
}

// exists refuses a creation in a scope that there is not. Nobody would see what is created, and its
// deletion would have to be thought of by somebody else.
func (g *Gate) exists(tx store.Tx, c store.Change) error {
	known, ok := g.resolver.(scopes.Register)
	if !ok || c.Old != nil {
		return nil
	}
	found, err := known.Exists(tx, c.New.Scope)
	if err == nil && !found {
		err = fault.New(fault.NotFound, "there is no control plane %q", c.New.Scope)
	}
	return err
}

// record adds the change records of a transaction. If they cannot be made, the transaction
// fails, because no change may happen without its record.
func (g *Gate) record(ctx context.Context, tx store.Tx, subject model.Key) error {
	who, _ := model.ActorOf(ctx)
	list, err := changes.Entries(tx.Changes(), who, model.OriginOf(ctx), subject)
	if err != nil {
		return fault.Wrap(fault.Internal, err, "a change cannot be recorded")
	}
	for i := range list {
		tx.Record(list[i].Record)
	}
	if len(list) == 0 || Rehearsed(ctx) {
		return nil
	}
	for _, report := range g.reporters {
		if err := report(ctx, tx, list); err != nil {
			return err
		}
	}
	return nil
}

// revokes reports whether changes take something away from a credential.
func revokes(changes []store.Change) bool {
	for _, c := range changes {
		if c.Old != nil && revocable(c.Old.Kind) {
			return true
		}
	}
	return false
}

// revocable reports whether gateways accept something because of resources of a kind.
func revocable(k *model.Kind) bool {
	return k.Class == model.Credential && k.Announce != model.AnnounceNone
}

// takesCredentials reports whether the deletion of a resource of a kind deletes something
// that gateways accept.
func (g *Gate) takesCredentials(k *model.Kind) bool {
	if revocable(k) {
		return true
	}
	for _, other := range g.kinds {
		for _, ref := range other.Refs {
			if ref.To == k.Name && ref.OnDelete == model.Cascade && other != k && g.takesCredentials(other) {
				return true
			}
		}
	}
	return false
}
