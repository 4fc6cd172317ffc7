package revoke

import (
	"encoding/hex"
	"strings"

	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/filter/contract"
)

// A row that cannot be decoded, for example after a downgrade, keeps no process from starting.
// What it may have said is taken for the worst: its name says what was revoked, its columns
// when, and where they do not, everything in Redis is void. The next write replaces it.

// entryOf returns the entry of a tombstone's row. ok is false for a damaged row that nobody
// can use; Redis is not believed then.
func (r *Revoker) entryOf(row *model.Resource) (e entry, ok bool) {
	unread, is := row.Spec.(*store.Unread)
	if !is {
		return row.Spec.(*Tombstone).entry(row.Revision)
	}
	r.log.Error("what was revoked cannot be read: it stays revoked", "row", row.Name, "error", unread.Why)
	if t, named := tombstoneOf(row.Name); named {
		t.Expires = unread.Expires
		e, ok = t.entry(row.Revision)
	}
	if !ok {
		r.hidden = true
	}
	return e, ok
}

// tombstoneOf is what the name of a row says of its tombstone; see [Tombstone.name].
func tombstoneOf(name string) (t *Tombstone, ok bool) {
	what, rest, _ := strings.Cut(name, ":")
	scope, id, two := strings.Cut(rest, ":")
	t = &Tombstone{Scope: scope, ID: id}
	switch what {
	case "scope":
		return &Tombstone{Subject: subjectScope, ID: rest}, rest != ""
	case "credential":
		t.Subject = contract.SubjectCredential
	case "consumer":
		t.Subject = contract.SubjectConsumer
	case "token":
		t.Subject, t.Token, t.ID = contract.SubjectToken, id, ""
		hash, err := hex.DecodeString(id)
		return t, err == nil && scope != "" && len(hash) == len(contract.Hash{})
	default:
		return nil, false
	}
	return t, two && scope != "" && id != ""
}

// seenIn returns when the filter of a row was last seen, at the latest, and when that was
// written. 0 has it written anew.
func seenIn(row *model.Resource) (seen, written int64) {
	if f, ok := row.Spec.(*Filter); ok {
		return f.Seen, f.Seen
	}
	return row.Modified.UnixMilli(), 0
}

// timesIn returns what a row says of the time. One that cannot be decoded says when it was
// written, and not what was done about the time before that.
func timesIn(row *model.Resource) Times {
	if t, ok := row.Spec.(*Times); ok {
		return *t
	}
	return Times{Earliest: row.Modified.UnixMilli(), Unmended: true}
}

// readable is a read of one row. It returns one that cannot be decoded as if it could: its spec
// is a [store.Unread].
func readable(row *model.Resource, err error) (*model.Resource, error) {
	if bare := store.UnreadIn(err); bare != nil {
		return bare, nil
	}
	return row, err
}
