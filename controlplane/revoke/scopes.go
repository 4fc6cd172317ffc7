package revoke

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/filter/contract"
)

// A filter accepts the credentials of the control planes that its gateway consists of, and
// of no others. It is told with its Welcome, and again when that changes. The change is an
// entry of the log: it is confirmed as a revocation is, by filters that have applied it and
// by Redis, where whoever is out of reach finds who has left.

// members is whose credentials the filters of a scope accept, as read at a revision.
type members struct {
	scopes   *contract.Scopes
	revision uint64
	// key is the same for who is concerned by the same entries.
	key string
}

// errReshaped says that a scope has come to consist of others since that was read.
var errReshaped = errors.New("what the scope consists of has changed")

// tells reports whether the filter of a link is told of members. Otherwise it reads nothing
// in Redis, either because it is older and looks elsewhere, or because they are more than it
// may look up, and takes the word of introspection.
func (l *link) tells(of *members) bool {
	return l.scoped && len(of.scopes.Members) <= contract.MaxScopes
}

// isTold reports whether the filter was told of its members.
func (l *link) isTold() bool {
	l.r.mu.Lock()
	defer l.r.mu.Unlock()
	return l.tells(l.members)
}

// membersOf reads what a scope consists of.
func (r *Revoker) membersOf(tx store.Reader, scope string) (*members, error) {
	src, err := r.o.Resolver.Resolve(tx, scope)
	if err != nil {
		return nil, fmt.Errorf("what %q consists of: %w", scope, err)
	}
	s := &contract.Scopes{Of: scope, Members: src.Scopes()}
	if src.IsUnion() { // a row that has ended is older than any record
		if s.Since, err = floorOf(tx, (&Tombstone{Subject: subjectScope, ID: scope}).name()); err != nil {
			return nil, err
		}
	}
	return &members{scopes: s, revision: tx.Revision(), key: strings.Join(s.Members, "\x00")}, nil
}

// noteReader returns when it is noted that filters of a scope are let in: from then on they are
// told what becomes of it, and Redis says what it consists of. It counts from before the
// commit: a change of the members that comes right behind that, and of which the filter has
// not read yet, leaves a row for the next process.
func (r *Revoker) noteReader(ctx context.Context, scope string) error {
	r.mu.Lock()
	stored := r.readers[scope]
	r.readers[scope] = stored
	r.mu.Unlock()
	if stored {
		return nil
	}
	_, err := r.o.Store.Update(ctx, model.Config, func(tx store.Tx) error {
		_, err := tx.Get(readers, "", scope)
		return put(tx, &model.Resource{Kind: readers, Name: scope, Spec: &Reader{}}, err)
	})
	if err != nil {
		return fmt.Errorf("note the scope of the filter: %w", err)
	}
	r.mu.Lock()
	r.readers[scope] = true
	r.mu.Unlock()
	r.keeper.ask(refill{scope: scope, members: true})
	return nil
}

// shapeOf is the entry of a scope that consists of others since a revision.
func (r *Revoker) shapeOf(scope string, revision uint64) entry {
	return entry{inv: contract.Invalidation{Subject: subjectScope, ID: scope, Revision: revision}, expires: r.lasting(0)}
}

// reshaped lists the scopes that filters belong to and changes may make consist of others.
func (r *Revoker) reshaped(changes []store.Change) (out []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range changes {
		res := c.New
		if res == nil {
			res = c.Old
		}
		if _, credential := r.o.Subjects[res.Kind]; credential || res.Kind == tombstones {
			continue // there may be thousands
		}
		key := res.Key()
		for scope := range r.readers {
			if r.o.Resolver.Shapes(scope, key) && !slices.Contains(out, scope) {
				out = append(out, scope)
			}
		}
	}
	return out
}

// formed lists what reshaped does, and those scopes that no filter belongs to yet: the row says
// since when a group stands, which its first filter must know.
func (r *Revoker) formed(changes []store.Change) []string {
	out := r.reshaped(changes)
	for _, c := range changes {
		for _, scope := range r.o.Resolver.Shaped(c) {
			if !slices.Contains(out, scope) {
				out = append(out, scope)
			}
		}
	}
	return out
}

// hasReaders reports whether filters of a scope were ever linked, or are about to be.
func (r *Revoker) hasReaders(scope string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, some := r.readers[scope]
	return some
}

// addReshaped adds what Stage did not know: the first filter of a scope may have come
// between it and the commit.
func (r *Revoker) addReshaped(entries []entry, c store.Commit) []entry {
	for _, scope := range r.reshaped(c.Changes) {
		if !slices.ContainsFunc(entries, func(e entry) bool { return e.inv.Subject == subjectScope && e.inv.ID == scope }) {
			entries = append(entries, r.shapeOf(scope, c.Revision))
		}
	}
	return entries
}

// join reads what the scope of a link consists of and registers it, again if that has
// changed in between.
func (r *Revoker) join(l *link) error {
	for {
		var of *members
		err := r.o.Store.View(l.ctx, func(tx store.Reader) (err error) {
			of, err = r.membersOf(tx, l.node.ControlPlane)
			return err
		})
		if err == nil {
			err = r.register(l, of)
		}
		if !errors.Is(err, errReshaped) {
			return err
		}
	}
}

// shapes reads what the scopes among entries consist of now. Publications come in another
// order than their commits, so what is read is not what an entry was made for, but never
// older. Where it cannot be read there is nil, and only there.
func (r *Revoker) shapes(entries []entry) map[string]*members {
	var out map[string]*members
	for i := range entries {
		if entries[i].inv.Subject != subjectScope {
			continue
		}
		if out == nil {
			out = map[string]*members{}
		}
		out[entries[i].inv.ID] = nil
	}
	if out == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(r.ctx, storeTimeout)
	defer cancel()
	err := r.o.Store.View(ctx, func(tx store.Reader) error {
		for scope := range out {
			of, err := r.membersOf(tx, scope)
			switch {
			case err == nil:
				out[scope] = of
			case errors.Is(err, store.ErrUnreadable):
				r.log.Error("what a control plane consists of cannot be read: its filters begin anew", "control_plane", scope, "error", err)
			default:
				return err
			}
		}
		return nil
	})
	if err != nil {
		r.log.Error("what control planes consist of could not be read: their filters begin anew", "error", err)
	}
	return out
}

// outdate has no link welcomed any more by what was read of the scopes among entries
// before these changed. It is read again then, also where nobody could read it to tell the
// links that are there. mu is held.
func (r *Revoker) outdate(entries []entry) {
	for i := range entries {
		if inv := &entries[i].inv; inv.Subject == subjectScope {
			r.reshapedAt[inv.ID] = max(r.reshapedAt[inv.ID], inv.Revision)
		}
	}
}

// reshape tells the filters of scopes what these consist of now, ahead of the frame that
// moves their position. One that does not understand it, or if nobody knows, ends its link
// and begins anew: its memory was judged by others. mu is held.
func (r *Revoker) reshape(at contract.Position, shapes map[string]*members) {
	for scope, of := range shapes {
		for l := range r.links {
			switch {
			case l.node.ControlPlane != scope:
			case of == nil:
				l.known.scopes = nil
				l.end()
			case of.scopes.Continues(l.members.scopes):
			case !l.tells(of) || !l.tells(l.members):
				l.end()
			default:
				r.reshapeLink(l, at, of)
			}
		}
	}
}

// reshapeLink tells one filter. What was revoked before of members that come it was not
// told, and is told now. mu is held.
func (r *Revoker) reshapeLink(l *link, at contract.Position, of *members) {
	come := &contract.Scopes{Members: slices.DeleteFunc(slices.Clone(of.scopes.Members), l.members.scopes.Has)}
	body, err := contract.EncodeJSON(of.scopes)
	if err != nil { // texts always encode
		l.end()
		return
	}
	for _, f := range invalidates(at, at, r.history.live(r.o.Clock.Earliest(), come), l.planes) {
		l.push(f)
	}
	l.push(frame{contract.FrameScopes, body})
	l.was = append(l.was, l.members.scopes)
	l.members, l.membersAt, l.known.scopes = of, at+1, nil
}

// membersCell is what Redis says of a scope. It has no end, as the clock has none: it is
// written anew when Redis is put in order, and with every record. A scope that cannot be read
// has no members there: filters believe those that they were told and that Redis lists, so
// those of the scope take nothing from Redis, and those of other scopes go on.
func (k *keeper) membersCell(tx store.Reader, scope string) (cell, error) {
	of, err := k.r.membersOf(tx, scope)
	unread := errors.Is(err, store.ErrUnreadable)
	if err != nil && !unread {
		return cell{}, err
	}
	if k.noteUnread(scope, unread) {
		k.r.log.Error("what a control plane consists of cannot be read: its filters take nothing from redis", "control_plane", scope, "error", err)
	}
	if unread {
		of = &members{scopes: &contract.Scopes{Of: scope}}
	}
	m := contract.Members{Epoch: k.epoch(), Members: of.scopes.Members, Since: of.scopes.Since}
	return cell{isMembers, contract.RedisMembersKey(scope), m.Marshal(), 0, of.scopes}, nil
}

// noteUnread notes whether a scope can be read, and reports whether it cannot any more.
func (k *keeper) noteUnread(scope string, unread bool) (news bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !unread {
		delete(k.unread, scope)
		return false
	}
	_, known := k.unread[scope]
	k.unread[scope] = struct{}{}
	return !known
}

// writeMembers writes what all scopes consist of that have filters. Turn is held.
func (k *keeper) writeMembers(ctx context.Context) error {
	k.r.mu.Lock()
	scopes := make([]string, 0, len(k.r.readers))
	for scope := range k.r.readers {
		scopes = append(scopes, scope)
	}
	k.r.mu.Unlock()
	for part := range slices.Chunk(scopes, pipelineSize) {
		if err := k.writeMembersOf(ctx, part); err != nil {
			return err
		}
	}
	return nil
}

// writeMembersOf is writeMembers for some scopes, for which it has the time of one batch.
func (k *keeper) writeMembersOf(ctx context.Context, scopes []string) error {
	var cells []cell
	read, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	err := k.r.o.Store.View(read, func(tx store.Reader) error {
		for _, scope := range scopes {
			c, err := k.membersCell(tx, scope)
			if err != nil {
				return err
			}
			cells = append(cells, c)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return k.writePart(ctx, cells)
}
