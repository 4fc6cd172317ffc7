package revoke

import (
	"encoding/hex"
	"math"
	"time"

	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/filter/contract"
)

// Tombstone remembers that a subject was revoked. The revision of the
// revocation is that of the resource. Its row is global, since a filter follows one log for
// all control planes, and its name begins with the scope of what was revoked: two of them
// may hold one value, or give one id.
type Tombstone struct {
	Subject contract.Subject `json:"subject"`
	// Token is the hash of a token in hex. ID names any other subject.
	Token string `json:"token,omitempty"`
	ID    string `json:"id,omitempty"`
	// Expires is when no record from before the revocation can be used any more, in
	// milliseconds of Unix time. 0 is found in rows of older releases, where it means
	// never.
	Expires int64 `json:"expires,omitempty"`
	// Again says that the commit left, or made, a token of that value: what stands
	// in Redis is replaced by its record and not by a tombstone.
	Again bool `json:"again,omitempty"`
	// Members are, of a scope that consists of others, all that it consisted of while the row
	// is there, and before. Rows of an older release lack them.
	Members []string `json:"members,omitempty"`
	// Scope is where the subject is, or was. Rows of an older release lack it: Redis holds
	// no record from before them that counts, and every filter is told.
	Scope string `json:"scope,omitempty"`
}

// subjectScope is a control plane, or a group, that consists of others than before. What
// filters are told of it is no invalidation; see scopes.go.
const subjectScope = contract.Subject(math.MaxUint8)

// Epoch is what was persisted about Redis before it was used; see
// [contract.Trust]. A row of an older release has neither servers nor a log, and so
// fits no Redis.
type Epoch struct {
	Epoch   contract.Epoch `json:"epoch"`
	Servers []string       `json:"servers,omitempty"`
	// Told says that no known filter believes servers other than these. The servers before
	// these may still run, and such a filter might still reach them.
	Told bool `json:"told,omitempty"`
	// Within says that the server was embedded in the control plane, and has ended with it.
	Within bool `json:"within,omitempty"`
	// Log is the log of the process that wrote the clock last.
	Log contract.LogID `json:"log,omitempty"`
	// Clean says that the process has ended without a write in progress. A process without
	// Redis resets it, because it does not watch Redis.
	Clean bool `json:"clean,omitempty"`
	// Forgotten says that the store does not know every filter that earlier processes
	// admitted. Those filters may hold a lease, and read Redis according to what they were
	// told then. Forgotten stays set until Redis was put in order once. It also holds for a
	// store on which nothing was persisted yet.
	Forgotten bool `json:"forgotten,omitempty"`
	// Layout is how Redis is written; see [layout].
	Layout int `json:"layout,omitempty"`
}

// layout is that of keys and records in Redis, and of what their members mean. What an older
// release has written counts no more: nobody writes tombstones over it, or, as before 2, a
// record may say that it counts in groups although another member has its value first.
const layout = 2

// Reader is a scope some gateway of which was linked once. It has no fields.
type Reader struct{}

// Filter remembers a filter process that may read Redis, or several of them,
// over restarts of the control plane; see known.go for the names of its rows.
type Filter struct {
	// Seen is when it was last linked, in milliseconds of Unix time.
	Seen int64 `json:"seen"`
}

// singleton is the name of the only resource of a kind.
const singleton = "redis"

// Kinds that this package keeps in the store.
var (
	tombstones = &model.Kind{
		Name: "revocation", Path: "revocations", Class: model.Credential, Announce: model.AnnounceNone, ReadOnly: true,
		New: func() any { return new(Tombstone) },
		Expires: func(spec any) time.Time {
			if at := spec.(*Tombstone).Expires; at > 0 {
				return time.UnixMilli(at)
			}
			return time.Time{}
		},
	}
	epochs = &model.Kind{
		Name: "revocation_epoch", Path: "revocation-epochs", Class: model.Credential, Announce: model.AnnounceNone, ReadOnly: true,
		New: func() any { return new(Epoch) },
	}
	readers = &model.Kind{
		Name: "filter_scope", Path: "filter-scopes", Class: model.Credential, Announce: model.AnnounceNone, ReadOnly: true,
		New: func() any { return new(Reader) },
	}
	filters = &model.Kind{
		Name: "filter", Path: "filters", Class: model.Credential, Announce: model.AnnounceNone, ReadOnly: true,
		New: func() any { return new(Filter) }, // its rows are deleted when the Revoker forgets the filter
	}
)

// Kinds lists the kinds of this package.
func Kinds() []*model.Kind {
	return []*model.Kind{tombstones, epochs, filters, readers, recordKeys, times}
}

// name is the name of the tombstone's resource.
func (t *Tombstone) name() string {
	switch t.Subject {
	case contract.SubjectCredential:
		return credentialRow(t.Scope, t.ID)
	case contract.SubjectConsumer:
		return consumerRow(t.Scope, t.ID)
	case subjectScope:
		return "scope:" + t.ID
	case contract.SubjectToken:
	}
	return tokenRow(t.Scope, t.Token)
}

func tokenRow(scope, hash string) string { return "token:" + scope + ":" + hash }

func credentialRow(scope, id string) string { return "credential:" + scope + ":" + id }

func consumerRow(scope, id string) string { return "consumer:" + scope + ":" + id }

// entry returns the log entry of a row. ok is false for a damaged row.
func (t *Tombstone) entry(revision uint64) (e entry, ok bool) {
	e = entry{
		inv:     contract.Invalidation{Subject: t.Subject, Revision: revision, ID: t.ID},
		expires: t.Expires, again: t.Again, scope: t.Scope, members: t.Members,
	}
	if t.Subject != contract.SubjectToken {
		return e, t.ID != ""
	}
	raw, err := hex.DecodeString(t.Token)
	return e, err == nil && copy(e.inv.Token[:], raw) == len(e.inv.Token) && len(raw) == len(e.inv.Token)
}
