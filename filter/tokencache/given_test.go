package tokencache

import (
	"context"

	"github.com/meshgate/meshgate/filter/contract"
)

// unhurried are pauses of a look-up that has no turn to give back.
type unhurried struct{ cache *Cache }

func (u unhurried) link(context.Context) *session { return u.cache.session.Load() }

func (unhurried) pause(ctx context.Context, until <-chan struct{}) bool {
	select {
	case <-until:
		return true
	case <-ctx.Done():
		return false
	}
}

// ownedBy is a record of a credential and, unless empty, a consumer.
func ownedBy(credential, consumer string) *contract.Record {
	r := &contract.Record{Plane: testPlane, Credential: contract.Credential{ID: credential}}
	if consumer != "" {
		r.Consumer = &contract.Consumer{ID: consumer}
	}
	return r
}

func tokenGone(token int, revision uint64) contract.Invalidation {
	return contract.Invalidation{Subject: contract.SubjectToken, Token: hashOf(token), Revision: revision}
}
