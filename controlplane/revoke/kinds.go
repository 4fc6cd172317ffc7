package revoke

import (
	"encoding/hex"
	"time"

	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/filter/contract"
)

// Tombstone remembers that a subject was revoked. The revision of the resource is the
// revision of the revocation. Tombstones are global, because token hashes and Redis keys
// are global.
type Tombstone struct {
	Subject contract.Subject `json:"subject"`
	// Token is the hash of a token in hex. ID names any other subject.
	Token string `json:"token,omitempty"`
	ID    string `json:"id,omitempty"`
	// Expires is when no record from before the revocation can be used any more, in
	// milliseconds of Unix time. 0 is found in rows of older releases, where it means
	// never.
	Expires int64 `json:"expires,omitempty"`
	// Again says that a token with this value exists after the commit. The value in Redis
	// is then replaced by the token's record and not by a tombstone. Scope is the scope of
	// the token.
	Again bool   `json:"again,omitempty"`
	Scope string `json:"scope,omitempty"`
}

// Epoch is what was persisted about Redis before it was used; see [contract.Trust]. A row
// of an older release has neither servers nor a log, and so matches no Redis.
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
}

// Filter remembers over restarts of the control plane a filter process that may read Redis,
// or a group of them. See known.go for the names of the rows.
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
	filters = &model.Kind{
		Name: "filter", Path: "filters", Class: model.Credential, Announce: model.AnnounceNone, ReadOnly: true,
		New: func() any { return new(Filter) }, // its rows are deleted when the Revoker forgets the filter
	}
)

// Kinds lists the kinds of this package.
func Kinds() []*model.Kind { return []*model.Kind{tombstones, epochs, filters, recordKeys, times} }

// name is the name of the tombstone's resource.
func (t *Tombstone) name() string {
	switch t.Subject {
	case contract.SubjectCredential:
		return credentialRow(t.ID)
	case contract.SubjectConsumer:
		return consumerRow(t.ID)
	case contract.SubjectToken:
	}
	return tokenRow(t.Token)
}

func tokenRow(hash string) string { return "token:" + hash }

func credentialRow(id string) string { return "credential:" + id }

func consumerRow(id string) string { return "consumer:" + id }

// entry returns the log entry of a row. ok is false for a damaged row.
func (t *Tombstone) entry(revision uint64) (e entry, ok bool) {
	e = entry{
		inv:     contract.Invalidation{Subject: t.Subject, Revision: revision, ID: t.ID},
		expires: t.Expires, again: t.Again, scope: t.Scope,
	}
	if t.Subject != contract.SubjectToken {
		return e, t.ID != ""
	}
	raw, err := hex.DecodeString(t.Token)
	return e, err == nil && copy(e.inv.Token[:], raw) == len(e.inv.Token) && len(raw) == len(e.inv.Token)
}
