package revoke

import (
	"encoding/hex"
	"time"

	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/filter/contract"
)

// Tombstone remembers that a subject was revoked. The revision of the
// revocation is that of the resource. Tombstones are global, because token
// hashes and the keys of Redis are.
type Tombstone struct {
	Subject contract.Subject `json:"subject"`
	// Token is the hash in hex, for tokens; ID names any other subject.
	Token string `json:"token,omitempty"`
	ID    string `json:"id,omitempty"`
	// Expires is when nothing is left that could be accepted wrongly, in
	// milliseconds of Unix time; 0 means never.
	Expires int64 `json:"expires,omitempty"`
}

// Epoch is the persisted epoch of Redis; see [contract.Clock].
type Epoch struct {
	Epoch uint64 `json:"epoch"`
}

// Newest marks the newest revocation: its resource's revision is the revision
// that the clock in Redis must have.
type Newest struct {
	Count uint64 `json:"count"`
}

// Filter remembers a filter process that may read Redis, or several of them,
// over restarts of the control plane; see known.go for the names of its rows.
type Filter struct {
	// Seen is when it was last linked, in milliseconds of Unix time.
	Seen int64 `json:"seen"`
}

// Remember is how long a filter that was not seen counts as possibly alive.
const Remember = 24 * time.Hour

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
	newest = &model.Kind{
		Name: "revocation_newest", Path: "revocation-newest", Class: model.Credential, Announce: model.AnnounceNone, ReadOnly: true,
		New: func() any { return new(Newest) },
	}
	filters = &model.Kind{
		Name: "filter", Path: "filters", Class: model.Credential, Announce: model.AnnounceNone, ReadOnly: true,
		New: func() any { return new(Filter) },
		Expires: func(spec any) time.Time {
			return time.UnixMilli(spec.(*Filter).Seen).Add(Remember)
		},
	}
)

// Kinds lists the kinds of this package.
func Kinds() []*model.Kind { return []*model.Kind{tombstones, epochs, newest, filters, recordKeys} }

// name is the name of the tombstone's resource.
func (t *Tombstone) name() string {
	switch t.Subject {
	case contract.SubjectCredential:
		return "credential:" + t.ID
	case contract.SubjectConsumer:
		return "consumer:" + t.ID
	case contract.SubjectToken:
	}
	return "token:" + t.Token
}

// invalidation is the message form; ok is false for a damaged row.
func (t *Tombstone) invalidation(revision uint64) (inv contract.Invalidation, ok bool) {
	inv = contract.Invalidation{Subject: t.Subject, Revision: revision, ID: t.ID}
	if t.Subject != contract.SubjectToken {
		return inv, t.ID != ""
	}
	raw, err := hex.DecodeString(t.Token)
	return inv, err == nil && copy(inv.Token[:], raw) == len(inv.Token) && len(raw) == len(inv.Token)
}

// redisKey is where the tombstone stands in Redis.
func redisKey(inv *contract.Invalidation) string {
	switch inv.Subject {
	case contract.SubjectCredential:
		return contract.RedisCredentialKey(inv.ID)
	case contract.SubjectConsumer:
		return contract.RedisConsumerKey(inv.ID)
	case contract.SubjectToken:
	}
	return contract.RedisRecordKey(inv.Token)
}
