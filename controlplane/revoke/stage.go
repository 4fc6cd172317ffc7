package revoke

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/filter/contract"
)

// expiryMargin is how much longer than its records a tombstone lives, because clocks
// differ.
const expiryMargin = 10 * time.Minute

// Subject describes a kind whose changes revoke something.
type Subject struct {
	Is contract.Subject
	// Token returns the hash of a token. It is set for SubjectToken only.
	Token func(spec any) contract.Hash
	// Expires returns the first millisecond at which a token is refused anyway, 0 if never.
	// It is set for SubjectToken only.
	Expires func(*model.Resource) int64
	// Under returns the id of the credential that a token belongs to, in its own scope. A
	// commit that revokes the credential covers the token too. It is set for SubjectToken
	// only.
	Under func(spec any) string
}

// Stage implements the revoker of the write path. It adds a tombstone for every token,
// application and consumer that the transaction changed or removed, and announces the
// change so that the commit has a revision. It also handles created tokens that were
// announced, because their value may be remembered as unknown somewhere. What has to be
// published is in the rows that Stage writes and nowhere else. So Stage may run more than
// once, like the transaction, and if the process ends before publishing, the next process
// publishes.
func (r *Revoker) Stage(tx store.Tx) error {
	changes := tx.Changes()
	covered := r.covered(changes)
	for _, c := range changes {
		rows, err := r.tombstonesOf(tx, c, covered)
		if err != nil {
			return err
		}
		for _, t := range rows {
			if err := write(tx, t); err != nil {
				return err
			}
		}
		if c.Old != nil && len(rows) > 0 {
			tx.Announce(c.Old.Key(), c.Op)
		}
	}
	for _, scope := range r.formed(changes) {
		t := &Tombstone{Subject: subjectScope, ID: scope, Expires: r.lasting(0), Members: r.membersAround(tx, scope)}
		if err := write(tx, t); err != nil {
			return err
		}
	}
	return nil
}

// tombstonesOf returns the tombstones of one change.
func (r *Revoker) tombstonesOf(tx store.Tx, c store.Change, covered map[model.Key]bool) ([]*Tombstone, error) {
	s, ok := r.o.Subjects[cmp.Or(c.Old, c.New).Kind]
	switch {
	case !ok:
		return nil, nil
	case c.Old == nil:
		if s.Is == contract.SubjectToken && tx.Announced(c.New.Key()) {
			return []*Tombstone{r.again(s, c.New, r.lasting(1))}, nil
		}
		return nil, nil
	case r.ended(c.Old):
		return nil, nil
	case s.Is != contract.SubjectToken:
		return []*Tombstone{r.ofOwner(s, c.Old.Scope, c.Old.Name)}, nil
	case store.IsUnread(c.Old):
		return r.unreadTombstones(c.Old)
	case c.Op == store.Deleted && r.isCovered(s, c.Old, covered):
		return nil, nil
	}
	return r.tokenTombstones(s, c), nil
}

// ofOwner is the tombstone of an application or a consumer.
func (r *Revoker) ofOwner(s Subject, scope, id string) *Tombstone {
	return &Tombstone{Subject: s.Is, Scope: scope, ID: id, Expires: r.lasting(0)}
}

// unreadTombstones returns the tombstones for a token whose row cannot be decoded. The
// value of the token is unknown, and a filter may remember it. So everything that is
// remembered of the token's owners is voided and looked up anew. If the owners are unknown
// as well, it fails: nothing would remove the token from the filters, and the deletion must
// not look successful.
func (r *Revoker) unreadTombstones(res *model.Resource) (rows []*Tombstone, err error) {
	for _, to := range res.Spec.(*store.Unread).Targets {
		for k, s := range r.o.Subjects {
			if k.Name == to.Kind && s.Is != contract.SubjectToken {
				rows = append(rows, r.ofOwner(s, to.Scope, to.Name))
			}
		}
	}
	if len(rows) == 0 {
		return nil, fault.New(fault.Internal, "the %s %s cannot be read, and it is not known whose it is: filters could not be told", res.Kind.Name, res.Name)
	}
	return rows, nil
}

// tokenTombstones returns the tombstones of a token that was changed or removed. If its
// value was changed, the old value is revoked, and what is known of the new value is
// voided.
func (r *Revoker) tokenTombstones(s Subject, c store.Change) []*Tombstone {
	expires := r.lasting(s.Expires(c.Old))
	hash := s.Token(c.Old.Spec)
	gone := &Tombstone{Subject: s.Is, Token: hex.EncodeToString(hash[:]), Expires: expires, Scope: c.Old.Scope}
	switch {
	case c.New == nil:
		return []*Tombstone{gone}
	case s.Token(c.New.Spec) == hash:
		return []*Tombstone{r.again(s, c.New, expires)}
	}
	return []*Tombstone{gone, r.again(s, c.New, r.lasting(1))}
}

// again returns the tombstone that voids what was known before of an existing token.
func (r *Revoker) again(s Subject, res *model.Resource, expires int64) *Tombstone {
	hash := s.Token(res.Spec)
	return &Tombstone{Subject: s.Is, Token: hex.EncodeToString(hash[:]), Expires: expires, Again: true, Scope: res.Scope}
}

// ended reports whether a row had expired already, so that no reader saw it.
func (r *Revoker) ended(res *model.Resource) bool {
	if res.Kind.Expires == nil || store.IsUnread(res) {
		return false
	}
	at := res.Kind.Expires(res.Spec)
	return !at.IsZero() && !r.o.Clock.Earliest().Before(at)
}

// covered lists credentials that are deleted by these changes, as they are named by their
// tokens: by the scope that both are in, and the id.
func (r *Revoker) covered(changes []store.Change) map[model.Key]bool {
	out := map[model.Key]bool{}
	for _, c := range changes {
		if c.Op != store.Deleted {
			continue
		}
		if s, ok := r.o.Subjects[c.Old.Kind]; ok && s.Is == contract.SubjectCredential {
			out[model.Key{Scope: c.Old.Scope, Name: c.Old.Name}] = true
		}
	}
	return out
}

// isCovered reports whether the floor of its credential takes a token back.
func (r *Revoker) isCovered(s Subject, token *model.Resource, covered map[model.Key]bool) bool {
	return s.Under != nil && covered[model.Key{Scope: token.Scope, Name: s.Under(token.Spec)}]
}

// lasting is when no record of a token with that expiry (0 for never) can be used
// any more. It is not shorter for a token that has ended: a row that is absent at
// once would leave nothing to publish.
func (r *Revoker) lasting(expires int64) int64 {
	now := r.o.Clock.Latest()
	end := now.Add(contract.RecordLife).UnixMilli()
	if expires != 0 {
		end = min(end, max(expires, now.UnixMilli()))
	}
	return end + expiryMargin.Milliseconds()
}

// write stores a tombstone or renews an existing one. It never shortens its life.
func write(tx store.Tx, t *Tombstone) error {
	old, err := tx.Get(tombstones, "", t.name())
	if bare := store.UnreadIn(err); bare != nil {
		t.Expires, t.Members = max(t.Expires, bare.Spec.(*store.Unread).Expires), nil
	}
	if err == nil {
		before := old.Spec.(*Tombstone)
		t.Expires = max(t.Expires, before.Expires)
		if len(before.Members) == 0 || len(t.Members) == 0 { // one of them does not know all
			t.Members = nil
		} else {
			t.Members = union(before.Members, t.Members)
		}
	}
	return put(tx, &model.Resource{Kind: tombstones, Name: t.name(), Spec: t}, err)
}

// put creates or updates a resource, depending on the error got of an earlier Get. It replaces
// one that cannot be decoded.
func put(tx store.Tx, res *model.Resource, got error) error {
	var err error
	switch {
	case store.UnreadIn(got) != nil:
		if err = tx.Delete(res.Kind, res.Scope, res.Name, 0); err == nil {
			_, err = tx.Create(res)
		}
	case got == nil:
		_, err = tx.Update(res, 0)
	case fault.Is(got, fault.NotFound):
		_, err = tx.Create(res)
	default:
		err = got
	}
	if err != nil {
		return fmt.Errorf("write %s %q: %w", res.Kind.Name, res.Name, err)
	}
	return nil
}

// minted is a token that a commit created. row is its row at the end of the commit, with its
// revision; nil if that is not the row that was created.
type minted struct {
	scope    string
	hash     contract.Hash
	row      *model.Resource
	revision uint64
}

// published returns what a commit has to publish, whether a revocation is promised, and the
// tokens that it created.
func (r *Revoker) published(c store.Commit) (entries []entry, revokes bool, made []minted) {
	entries = r.staged(c)
	for _, ch := range c.Changes {
		if ch.New == nil {
			continue
		}
		if s, ok := r.o.Subjects[ch.New.Kind]; ok && s.Is == contract.SubjectToken && ch.Op == store.Created {
			made = append(made, minted{ch.New.Scope, s.Token(ch.New.Spec), ch.New, c.Revision})
		}
	}
	made = slices.DeleteFunc(made, func(m minted) bool {
		return slices.ContainsFunc(entries, func(e entry) bool { return e.again && e.inv.Token == m.hash && e.scope == m.scope })
	})
	onlyCreated(made, c.Changes)
	entries = r.addReshaped(entries, c)
	return entries, r.promises(c.Changes) || slices.ContainsFunc(entries, func(e entry) bool { return e.inv.Subject == subjectScope }), made
}

// staged returns the entries of the rows that Stage wrote.
func (r *Revoker) staged(c store.Commit) (entries []entry) {
	for _, ch := range c.Changes {
		if ch.New == nil || ch.New.Kind != tombstones {
			continue
		}
		t := ch.New.Spec.(*Tombstone)
		if e, ok := t.entry(c.Revision); ok && (t.Subject != subjectScope || r.hasReaders(t.ID)) {
			entries = append(entries, e)
		}
	}
	return entries
}

// onlyCreated forgets the rows of tokens that the same commit has changed or deleted again.
func onlyCreated(made []minted, changes []store.Change) {
	if len(changes) == len(made) {
		return
	}
	times := make(map[model.Key]int, len(changes))
	for _, c := range changes {
		times[cmp.Or(c.New, c.Old).Key()]++
	}
	for i := range made {
		if times[made[i].row.Key()] > 1 {
			made[i].row = nil
		}
	}
}

// promises reports whether some of the changes revoke, rather than only create.
func (r *Revoker) promises(changes []store.Change) bool {
	for _, c := range changes {
		if c.Old == nil {
			continue
		}
		if _, ok := r.o.Subjects[c.Old.Kind]; ok {
			return true
		}
	}
	return false
}
