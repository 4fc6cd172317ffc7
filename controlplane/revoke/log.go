package revoke

import (
	"crypto/rand"
	"slices"
	"time"

	"github.com/meshgate/meshgate/filter/contract"
)

// Bounds of the log and of one frame.
const (
	maxLog = 1 << 16
	// spare is how many entries the log grows by before expired entries are removed.
	spare = 1 << 10
	// itemsPerFrame keeps frames far below their size limit; ids are a few dozen bytes
	// long.
	itemsPerFrame = 2048
)

// entry is one revocation, or the creation of a token whose value may be remembered as
// unknown.
type entry struct {
	inv     contract.Invalidation
	expires int64 // 0 only in rows of an older release
	at      contract.Position
	// again, scope and members: see [Tombstone].
	again   bool
	scope   string
	members []string
}

// concerns reports whether an entry says something to a filter that accepts the credentials
// of some control planes. It is told of no others: it would learn what they hold.
func (e *entry) concerns(of *contract.Scopes) bool {
	return e.inv.Subject != subjectScope && (e.scope == "" || of.Has(e.scope))
}

// held is a token that a control plane holds.
type held struct {
	scope string
	token contract.Hash
}

func (e *entry) live(now time.Time) bool { return e.expires == 0 || now.UnixMilli() < e.expires }

// history is the log: what this process has published, in the order of its positions. The
// owner serialises access.
type history struct {
	id contract.LogID
	// at is the newest position. The first position is that of the entries that a
	// predecessor left.
	at      contract.Position
	entries []entry
	// dropped is the newest position of an entry that has left the log. lost is the newest
	// position of an entry that left although it still mattered.
	dropped, lost contract.Position
	// floor replaces the entries that were lost: records with a lower revision are void.
	floor uint64
	// revoked are the tokens whose revocation is among the entries.
	revoked map[held]bool
	// kept is the number of entries when the log was last tidied.
	kept int
	// welcome holds the frames for filters that start anew at position welcomeAt. When all
	// filters come back at once they share them.
	welcome   map[readership][]frame
	welcomeAt contract.Position
}

// newHistory starts a log with the entries of the store, in the order of their revisions.
func newHistory(now time.Time, entries []entry) *history {
	h := &history{id: contract.LogID(rand.Text()), revoked: map[held]bool{}}
	h.add(now, entries)
	return h
}

// add appends entries at the next position.
func (h *history) add(now time.Time, entries []entry) contract.Position {
	h.at++
	for _, e := range entries {
		e.at = h.at
		h.entries = append(h.entries, e)
		h.note(&e)
	}
	if len(h.entries) > min(2*h.kept+spare, maxLog) {
		h.tidy(now)
	}
	return h.at
}

// tick takes the next position for something that is not an entry.
func (h *history) tick() contract.Position {
	h.at++
	return h.at
}

// tidy drops expired entries. If the log is still full, it drops the oldest ones as well.
func (h *history) tidy(now time.Time) {
	keep := make([]entry, 0, len(h.entries))
	for i := range h.entries {
		if h.entries[i].live(now) {
			keep = append(keep, h.entries[i])
		} else {
			h.dropped = max(h.dropped, h.entries[i].at)
		}
	}
	if len(keep) > maxLog {
		gone := keep[:len(keep)-maxLog*3/4]
		for i := range gone {
			h.floor = max(h.floor, gone[i].inv.Revision)
			h.lost = max(h.lost, gone[i].at)
		}
		h.dropped = max(h.dropped, h.lost)
		keep = slices.Clone(keep[len(gone):])
	}
	h.entries, h.kept = keep, len(keep)
	clear(h.revoked)
	for i := range keep {
		h.note(&keep[i])
	}
}

// note updates revoked from an entry about a token.
func (h *history) note(e *entry) {
	switch {
	case e.inv.Subject != contract.SubjectToken:
	case e.again:
		delete(h.revoked, held{e.scope, e.inv.Token})
	default:
		h.revoked[held{e.scope, e.inv.Token}] = true
	}
}

// isRevoked reports whether one of some control planes has revoked a token.
func (h *history) isRevoked(of *contract.Scopes, token contract.Hash) bool {
	return h.revoked[held{"", token}] || slices.ContainsFunc(of.Members, func(scope string) bool { return h.revoked[held{scope, token}] })
}

// after returns the entries behind a position. The slice is shared.
func (h *history) after(at contract.Position) []entry {
	i, _ := slices.BinarySearchFunc(h.entries, at+1, func(e entry, at contract.Position) int {
		switch {
		case e.at < at:
			return -1
		case e.at > at:
			return 1
		}
		return 0
	})
	return h.entries[i:len(h.entries):len(h.entries)]
}

// resume returns the position from which a filter continues, or 0 if it has to start anew.
func (h *history) resume(hello *contract.Hello) contract.Position {
	if hello.Log != h.id || hello.Applied > h.at || hello.Applied < h.dropped {
		return 0
	}
	return hello.Applied
}

// missed returns the frames that bring a filter from a position to the newest.
func (h *history) missed(from contract.Position, now time.Time, of *members, planes bool) []frame {
	switch {
	case from == h.at:
		return nil
	case from != 0:
		return invalidates(from, h.at, concerning(h.after(from), of.scopes), planes)
	case h.welcomeAt != h.at:
		h.welcome, h.welcomeAt = map[readership][]frame{}, h.at
	}
	frames, known := h.welcome[readership{of.key, planes}]
	if !known {
		frames = invalidates(0, h.at, h.live(now, of.scopes), planes)
		h.welcome[readership{of.key, planes}] = frames
	}
	return frames
}

// readership are the filters that are told the same: the key of their members, and whether
// they understand control planes in invalidations.
type readership struct {
	members string
	planes  bool
}

// live are the entries that still matter to filters of some control planes.
func (h *history) live(now time.Time, of *contract.Scopes) (out []entry) {
	for i := range h.entries {
		if h.entries[i].live(now) && h.entries[i].concerns(of) {
			out = append(out, h.entries[i])
		}
	}
	return out
}

// concerning leaves out what concerns others.
func concerning(entries []entry, of *contract.Scopes) []entry {
	out := make([]entry, 0, len(entries))
	for i := range entries {
		if entries[i].concerns(of) {
			out = append(out, entries[i])
		}
	}
	return out
}

// invalidates encodes entries as the way from one position to another. Entries that do not
// fit into one frame go into earlier frames that do not move the position: only the last
// frame says that everything was applied. planes says that filters are told whose owners are
// meant.
func invalidates(from, to contract.Position, entries []entry, planes bool) (out []frame) {
	for {
		m := contract.Invalidate{From: from, To: to}
		part := entries[:min(itemsPerFrame, len(entries))]
		entries = entries[len(part):]
		if len(entries) > 0 {
			m.To = from
		}
		for i := range part {
			inv := part[i].inv
			if planes && inv.Subject != contract.SubjectToken {
				inv.Plane = part[i].scope
			}
			m.Items = append(m.Items, inv)
		}
		out = append(out, frame{contract.FrameInvalidate, m.Encode()})
		if len(entries) == 0 {
			return out
		}
	}
}
