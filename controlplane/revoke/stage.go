package revoke

import (
	"encoding/hex"
	"fmt"
	"sync"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/filter/contract"
)

// maxDependents bounds the resources that are read to find out how long a
// tombstone of an application or consumer must live. With more of them the
// tombstone lives without limit, which is always safe.
const maxDependents = 1000

// Subject describes a kind whose changes revoke.
type Subject struct {
	Is contract.Subject
	// Token returns the hash of a token; for SubjectToken only.
	Token func(spec any) contract.Hash
	// Expires is the first millisecond at which a token is refused anyway, 0 if
	// never; for SubjectToken only.
	Expires func(*model.Resource) int64
	// Under returns the id of the credential that a token belongs to: a commit
	// that revokes it covers the token too. For SubjectToken only.
	Under func(spec any) string
	// Below lists the kinds that refer to this one: tokens of an application,
	// applications and keys of a consumer.
	Below []Dependents
}

// Dependents are the resources of a kind that refer to another one.
type Dependents struct {
	Kind *model.Kind
	// Ref is the name of the reference.
	Ref string
}

// staged remembers, for creations of tokens, the revision before the commit.
// If the commit took a new one, somebody announced the creation ([store.Tx]
// Announce), which says that the value may have been presented before. It is
// bounded; what was pushed out counts as announced.
type staged struct {
	mu    sync.Mutex
	base  map[model.Key]uint64
	order []model.Key
}

const maxStaged = 4096

func (s *staged) put(k model.Key, base uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.base == nil {
		s.base = map[model.Key]uint64{}
	}
	if _, again := s.base[k]; !again {
		s.order = append(s.order, k)
	}
	s.base[k] = base
	for len(s.order) > maxStaged {
		delete(s.base, s.order[0])
		s.order = s.order[1:]
	}
}

// take reports whether the creation took a revision of its own.
func (s *staged) take(k model.Key, revision uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	base, ok := s.base[k]
	return !ok || revision > base
}

// Stage implements the revoker of the write path: it adds a tombstone for every
// token, application and consumer that the transaction changed or removed, and
// announces the change so that the commit has a revision. A creation is left
// alone; the caller announces it if its value may be remembered as unknown
// somewhere, and [Revoker.Publish] then invalidates it. Like the transaction it
// may run more than once.
func (r *Revoker) Stage(tx store.Tx) error {
	changes := tx.Changes()
	covered := r.covered(changes)
	revokes := false
	for _, c := range changes {
		if c.Old == nil {
			if s, ok := r.o.Subjects[c.New.Kind]; ok && s.Is == contract.SubjectToken {
				r.staged.put(c.New.Key(), tx.Revision())
			}
			continue
		}
		s, ok := r.o.Subjects[c.Old.Kind]
		if !ok || r.ended(c.Old) || (s.Is == contract.SubjectToken && c.Op == store.Deleted && s.Under != nil && covered[s.Under(c.Old.Spec)]) {
			continue
		}
		for _, t := range r.tombstonesOf(s, c) {
			if t.Subject != contract.SubjectToken {
				longest, err := r.longest(tx, c.Old, changes)
				if err != nil {
					return err
				}
				t.Expires = longest
			}
			if err := write(tx, t); err != nil {
				return err
			}
		}
		tx.Announce(c.Old.Key(), c.Op)
		revokes = true
	}
	if !revokes {
		return nil
	}
	return advance(tx)
}

// ended reports whether a row was absent for every reader already.
func (r *Revoker) ended(res *model.Resource) bool {
	if res.Kind.Expires == nil {
		return false
	}
	at := res.Kind.Expires(res.Spec)
	return !at.IsZero() && !r.o.Now().Before(at)
}

// covered lists credentials that are deleted by these changes.
func (r *Revoker) covered(changes []store.Change) map[string]bool {
	out := map[string]bool{}
	for _, c := range changes {
		if c.Op != store.Deleted {
			continue
		}
		if s, ok := r.o.Subjects[c.Old.Kind]; ok && s.Is == contract.SubjectCredential {
			out[c.Old.Name] = true
		}
	}
	return out
}

// tombstonesOf returns the tombstones of one change. A token whose value was
// changed revokes the old one and invalidates what is known of the new one.
func (r *Revoker) tombstonesOf(s Subject, c store.Change) []*Tombstone {
	if s.Is != contract.SubjectToken {
		return []*Tombstone{{Subject: s.Is, ID: c.Old.Name}}
	}
	old, expires := s.Token(c.Old.Spec), s.Expires(c.Old)
	out := []*Tombstone{{Subject: s.Is, Token: hex.EncodeToString(old[:]), Expires: r.lasting(expires)}}
	if c.New == nil {
		return out
	}
	if next := s.Token(c.New.Spec); next != old {
		out = append(out, &Tombstone{Subject: s.Is, Token: hex.EncodeToString(next[:]), Expires: r.lasting(s.Expires(c.New))})
	}
	return out
}

// lasting keeps the tombstone of an ended token for a moment: a row that is
// absent at once would leave nothing to publish.
func (r *Revoker) lasting(expires int64) int64 {
	if expires == 0 {
		return 0
	}
	return max(expires, r.o.Now().Add(2*contract.Lease).UnixMilli())
}

// longest is the latest expiry of the tokens below a resource, deleted by this
// transaction or still there; 0 if one never expires or there are too many.
func (r *Revoker) longest(tx store.Reader, res *model.Resource, changes []store.Change) (int64, error) {
	latest := r.lasting(1)
	for _, c := range changes {
		if c.Old == nil {
			continue
		}
		s, ok := r.o.Subjects[c.Old.Kind]
		if !ok || s.Is != contract.SubjectToken {
			continue
		}
		at := s.Expires(c.Old)
		if at == 0 {
			return 0, nil
		}
		latest = max(latest, at)
	}
	budget := maxDependents
	at, err := r.below(tx, res, &budget)
	if err != nil || at == 0 {
		return 0, err
	}
	return max(latest, at), nil
}

// below is longest for what is still stored; 1 if there is nothing.
func (r *Revoker) below(tx store.Reader, res *model.Resource, budget *int) (int64, error) {
	s := r.o.Subjects[res.Kind]
	if s.Is == contract.SubjectToken {
		return s.Expires(res), nil
	}
	if len(s.Below) == 0 {
		return 0, nil
	}
	latest := int64(1)
	for _, d := range s.Below {
		list, err := tx.List(d.Kind, store.Query{Scope: res.Scope, Index: d.Ref, Value: res.Name, Limit: *budget + 1})
		if err != nil {
			return 0, fmt.Errorf("list what depends on %s %q: %w", res.Kind.Name, res.Name, err)
		}
		if *budget -= len(list); *budget < 0 {
			return 0, nil
		}
		for _, b := range list {
			at, err := r.below(tx, b, budget)
			if err != nil || at == 0 {
				return 0, err
			}
			latest = max(latest, at)
		}
	}
	return latest, nil
}

// write stores a tombstone or renews one that is there; it never shortens it.
func write(tx store.Tx, t *Tombstone) error {
	old, err := tx.Get(tombstones, "", t.name())
	if err == nil {
		if was := old.Spec.(*Tombstone).Expires; was == 0 || t.Expires == 0 {
			t.Expires = 0
		} else {
			t.Expires = max(t.Expires, was)
		}
	}
	return put(tx, &model.Resource{Kind: tombstones, Name: t.name(), Spec: t}, err)
}

// advance moves the marker of the newest revocation to this commit.
func advance(tx store.Tx) error {
	n := &Newest{Count: 1}
	old, err := tx.Get(newest, "", singleton)
	if err == nil {
		n.Count += old.Spec.(*Newest).Count
	}
	return put(tx, &model.Resource{Kind: newest, Name: singleton, Spec: n}, err)
}

// put creates or updates, by what Get said.
func put(tx store.Tx, res *model.Resource, got error) error {
	var err error
	switch {
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

// revoked returns what a commit invalidates, with expiries.
func (r *Revoker) revoked(c store.Commit) []entry {
	var out []entry
	for _, ch := range c.Changes {
		if ch.New == nil {
			continue
		}
		if t, ok := ch.New.Spec.(*Tombstone); ok && ch.New.Kind == tombstones {
			if inv, ok := t.invalidation(c.Revision); ok {
				out = append(out, entry{inv: inv, expires: t.Expires})
			}
			continue
		}
		s, ok := r.o.Subjects[ch.New.Kind]
		if ok && s.Is == contract.SubjectToken && ch.Op == store.Created && r.staged.take(ch.New.Key(), c.Revision) {
			inv := contract.Invalidation{Subject: s.Is, Token: s.Token(ch.New.Spec), Revision: c.Revision}
			out = append(out, entry{inv: inv, expires: r.lasting(s.Expires(ch.New))})
		}
	}
	return out
}
