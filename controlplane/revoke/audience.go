package revoke

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/filter/contract"
)

// A revocation waits for filters that may take what was revoked from Redis, and for no others:
// those belong to tenants that it does not concern. Whose credentials a filter may take is
// known of its scope and not of the filter: what it has on its disk may have been told to a
// process before it.

// audience is the known filters of one scope.
type audience struct {
	of string
	// accepts are the control planes whose credentials its filters were told to accept. The
	// value is 0 for one that is a member, and else the position at which it left: who has
	// confirmed that one takes nothing of it from Redis any more.
	accepts map[string]contract.Position
	// written is what Redis says of the scope, or was to say.
	written *contract.Scopes
	// unsure is the position up to which filters may accept the credentials of anybody: a
	// predecessor may have told them what this process does not know.
	unsure contract.Position
	tally  tally
}

// unknownOnes is the audience of filters of which nobody knows what they accept.
const unknownOnes = ""

// audience returns that of a scope. mu is held.
func (r *Revoker) audience(of string) *audience {
	a := r.audiences[of]
	if a == nil {
		a = &audience{of: of, accepts: map[string]contract.Position{}, written: &contract.Scopes{}, unsure: r.unsure, tally: tally{}}
		if of == unknownOnes {
			a.unsure = everything
		}
		r.audiences[of] = a
	}
	return a
}

// audienceOf returns that of a filter of which only the name of its row is known. mu is held.
func (r *Revoker) audienceOf(name string) *audience {
	if node := nodeOf(name); node != "" && r.o.ControlPlaneOf != nil {
		return r.audience(r.o.ControlPlaneOf(node))
	}
	return r.audience(unknownOnes)
}

// move has a known filter belong to another audience. mu is held.
func (r *Revoker) move(k *known, to *audience) {
	k.of.tally.remove(k.covered)
	k.of = to
	to.tally.add(k.covered)
}

// loadAudiences notes what the filters of a predecessor accept. Unless there is a row about
// it, a scope has consisted of the same for as long as anything counts that Redis may hold.
func (r *Revoker) loadAudiences(tx store.Reader, entries []entry) {
	for scope, a := range r.audiences {
		if _, noted := r.readers[scope]; !noted {
			a.unsure = max(a.unsure, r.history.at)
		}
	}
	for scope := range r.readers {
		of, err := r.membersOf(tx, scope)
		if err != nil { // it is read again when it changes, but who was told what is not known then
			r.audience(scope).unsure = everything
			continue
		}
		r.mayAccept(of.scopes)
	}
	for i := range entries {
		e := &entries[i]
		if e.inv.Subject != subjectScope {
			continue
		}
		a := r.audience(e.inv.ID)
		if len(e.members) == 0 {
			a.unsure = max(a.unsure, r.history.at)
		}
		for _, member := range e.members {
			if _, still := a.accepts[member]; !still {
				a.accepts[member] = r.history.at
			}
		}
	}
}

// aroundTimeout bounds how long a transaction waits for what was before it. The only writer of
// the store waits with it.
const aroundTimeout = 250 * time.Millisecond

// membersAround returns what a scope consists of after a transaction, and what before. The next
// process learns from that what filters may have been told. It is empty if that cannot be read,
// or not in time: the next process then takes it that they were told anything.
//
// What was before is the committed state. Other transactions may be committed together with
// this one, and have changed the scope before it. Nobody was told of what is between them. If
// somebody was, the row of the scope would say so: each transaction adds to what it finds
// there.
func (r *Revoker) membersAround(tx store.Tx, scope string) (all []string) {
	after, err := r.membersOf(tx, scope)
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(r.ctx, aroundTimeout)
	defer cancel()
	_ = r.o.Store.View(ctx, func(before store.Reader) error {
		of, err := r.membersOf(before, scope)
		if err == nil {
			all = union(of.scopes.Members, after.scopes.Members)
		}
		return err
	})
	return all
}

func union(a, b []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(slices.Concat(a, b))))
}

// mayAccept notes what filters of a scope are about to be told, or to find in Redis. mu is
// held.
func (r *Revoker) mayAccept(of *contract.Scopes) *audience {
	a := r.audience(of.Of)
	for _, member := range of.Members {
		a.accepts[member] = 0
	}
	return a
}

// isWritten notes what is about to be written to Redis of a scope.
func (r *Revoker) isWritten(of *contract.Scopes) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mayAccept(of).written = of
}

// haveLeft notes what scopes consist of from a position on. Who is a member neither now nor
// in Redis has left. written says that Redis was written up to the position. If it was not, who
// is no member now has left as well: a filter that takes something from Redis has confirmed
// the position only when Redis was put in order, which writes the members anew. Who has left
// before did so at the position that is noted. mu is held.
func (r *Revoker) haveLeft(at contract.Position, shapes map[string]*members, written bool) {
	for _, of := range shapes {
		if of == nil {
			continue // nobody could read who has left
		}
		a := r.mayAccept(of.scopes)
		for member, left := range a.accepts {
			if left == 0 && !of.scopes.Has(member) && (!written || !a.written.Has(member)) {
				a.accepts[member] = at
			}
		}
	}
}

// matter is whom a publication concerns, or a caller.
type matter struct {
	// all says that it concerns everybody.
	all bool
	// scopes are whose credentials it is about, and groups which scopes consist of others
	// now. Both are in order.
	scopes, groups []string
}

// matterOf is that of a publication.
func matterOf(entries []entry) (m matter) {
	for i := range entries {
		switch e := &entries[i]; {
		case e.inv.Subject == subjectScope:
			m.groups = with(m.groups, e.inv.ID)
		case e.scope == "":
			m.all = true
		default:
			m.scopes = with(m.scopes, e.scope)
		}
	}
	return m
}

// matterIn is that of a caller who looks for something in some scopes, or anywhere if none is
// given. Of what has gone from there, all filters of these scopes may know, and those that
// accept their credentials.
func matterIn(scopes []string) (m matter) {
	m.all = len(scopes) == 0
	for _, scope := range scopes {
		m.scopes = with(m.scopes, scope)
	}
	m.groups = m.scopes
	return m
}

// within is that of a commit, for those who find its effect: what it publishes, and wherever
// it took something away. A token goes with a service of another control plane, and whoever
// finds that the service is gone has to wait for the token.
func within(c store.Commit, entries []entry) matter {
	m := matterOf(entries)
	for _, ch := range c.Changes {
		if ch.Old != nil && ch.Old.Scope != "" {
			m.scopes = with(m.scopes, ch.Old.Scope)
		}
	}
	return m
}

// meets reports whether what one matter is about may be what another one looks for.
func (m *matter) meets(other *matter) bool {
	if m.all || other.all {
		return true
	}
	theirs := slices.Concat(other.scopes, other.groups)
	return slices.ContainsFunc(slices.Concat(m.scopes, m.groups), func(scope string) bool { return slices.Contains(theirs, scope) })
}

// with adds to a list in order what it lacks.
func with(list []string, one string) []string {
	at, found := slices.BinarySearch(list, one)
	if found {
		return list
	}
	return slices.Insert(list, at, one)
}

// key is the same for equal ones.
func (m *matter) key() string {
	if m.all {
		return ""
	}
	return strings.Join(m.scopes, "\x00") + "\x00\x00" + strings.Join(m.groups, "\x00")
}

// concerns reports whether a filter may answer from its memory with something that the matter
// is about. judged is whose credentials it may hold, and what it may have judged them by.
func (m *matter) concerns(judged []*contract.Scopes) bool {
	for _, of := range judged {
		if m.all || slices.Contains(m.groups, of.Of) || slices.ContainsFunc(m.scopes, of.Has) {
			return true
		}
	}
	return m.all
}

// names reports whether filters of an audience were told to accept something that the matter
// is about, at some time.
func (m *matter) names(a *audience) bool {
	return slices.Contains(m.groups, a.of) || slices.ContainsFunc(m.scopes, func(scope string) bool {
		_, told := a.accepts[scope]
		return told
	})
}

// reaches reports whether a matter concerns the filters of an audience, as far as they take
// something from Redis. mu is held.
func (r *Revoker) reaches(m *matter, a *audience) bool {
	if m.all || slices.Contains(m.groups, a.of) {
		return true
	}
	at := r.confirmedBy(a.tally)
	return at < a.unsure || slices.ContainsFunc(m.scopes, func(scope string) bool {
		left, told := a.accepts[scope]
		return told && (left == 0 || at < left)
	})
}
