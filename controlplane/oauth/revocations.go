package oauth

import (
	"cmp"
	"context"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/scopes"
	"github.com/meshgate/meshgate/controlplane/store"
)

// revokeBatch bounds the tokens that one transaction revokes, so that other
// writers get their turn.
const revokeBatch = 500

// RevokeBy says whose tokens to revoke; exactly one member is set.
type RevokeBy struct {
	// Credential is the id of an application, Consumer that of a consumer.
	Credential, Consumer string
	// UserID is the authenticated_userid of an end user.
	UserID string
}

// Revocations revokes many tokens in one call.
type Revocations struct {
	Store store.Store
	// Resolver says what the scopes consist of; nil is [scopes.Each].
	Resolver scopes.Resolver
	Writer   Writer
}

// Revoke revokes every token that one application, one consumer or one end user has in a
// scope, in a group with all members, together with the codes that could still become tokens, and returns how many
// tokens it were and the last commit. Tokens that are issued during the call may
// or may not be among them.
//
// It works in batches, and goes on when a gateway could not be told: after an
// error, which says that revoking did not get any further or (Unavailable) that
// something may still be accepted, n tokens are revoked all the same. Tokens that it
// did not find, because another call has just revoked them, are not accepted either when
// it returns without an error.
// Errors of its own are Invalid, unless exactly one member
// of by is set, and NotFound for an unknown application or consumer: after Unavailable, as
// it may have been deleted a moment ago.
func (v *Revocations) Revoke(ctx context.Context, scope string, by RevokeBy) (n int, c store.Commit, err error) {
	lists, within, revision, err := v.lists(ctx, scope, by)
	if fault.Is(err, fault.NotFound) {
		err = cmp.Or(v.Writer.Settle(ctx, within...), err)
	}
	if err != nil {
		return 0, store.Commit{}, err
	}
	c.Revision = revision
	for _, q := range lists {
		// Codes first: a code that is exchanged meanwhile becomes a token that
		// is found afterwards.
		for _, k := range []*model.Kind{gateway.Codes, gateway.Tokens} {
			revoked, last, err := revokeListed(ctx, v.Writer, k, q)
			if k == gateway.Tokens {
				n += revoked
			}
			if last.Revision > c.Revision {
				c = last
			}
			if err != nil {
				return n, c, err
			}
		}
	}
	return n, c, v.Writer.Settle(ctx, within...)
}

// lists returns the queries that find what is to be revoked, in each member that the scope
// consists of. What two members have in common keeps nothing from being revoked: it goes
// from both. NotFound if no member has the application or consumer. within is the scope and
// its members.
func (v *Revocations) lists(ctx context.Context, scope string, by RevokeBy) (out []store.Query, within []string, revision uint64, err error) {
	err = v.Store.View(ctx, func(r store.Reader) error {
		revision = r.Revision()
		src, err := scopes.OrEach(v.Resolver).Resolve(r, scope)
		if err != nil {
			return err
		}
		within = append(src.Scopes(), scope)
		absent := error(fault.New(fault.NotFound, "there is no member that could have it"))
		found := by.UserID != "" // whom nobody needs to know
		for _, member := range src.Scopes() {
			list, err := by.within(r, member)
			if fault.Is(err, fault.NotFound) {
				absent = err
				continue
			}
			if err != nil {
				return err
			}
			out, found = append(out, list...), true
		}
		if !found {
			return absent
		}
		return nil
	})
	return out, within, revision, err
}

// within returns the queries for one scope.
func (by RevokeBy) within(r store.Reader, scope string) (out []store.Query, err error) {
	switch by {
	case RevokeBy{Credential: by.Credential}:
		if by.Credential == "" {
			break
		}
		out = []store.Query{{Scope: scope, Index: gateway.RefCredential, Value: by.Credential}}
		return out, there(r, gateway.Applications, scope, by.Credential)
	case RevokeBy{Consumer: by.Consumer}:
		if err := there(r, gateway.Consumers, scope, by.Consumer); err != nil {
			return nil, err
		}
		apps, err := store.ListAll(r, gateway.Applications, store.Query{Scope: scope, Index: gateway.RefConsumer, Value: by.Consumer})
		for _, app := range apps {
			out = append(out, store.Query{Scope: scope, Index: gateway.RefCredential, Value: app.Name})
		}
		return out, err
	case RevokeBy{UserID: by.UserID}:
		return []store.Query{{Scope: scope, Index: gateway.IndexUser, Value: by.UserID}}, nil
	}
	return nil, fault.New(fault.Invalid, "exactly one of credential, consumer and user must be given")
}

// there is nil if a resource exists. Whose tokens are to go need not be readable.
func there(r store.Reader, k *model.Kind, scope, name string) error {
	_, err := r.Get(k, scope, name)
	if store.UnreadIn(err) != nil {
		return nil
	}
	return err
}

// revokeListed deletes what a query finds, batch by batch, until it finds no more. A
// commit whose publication failed counts, because it stands, and is no error: the caller
// asks with Settle whether gateways still accept what it revoked. Any other failure ends
// it: what is left was not revoked, and nothing would make up for it.
func revokeListed(ctx context.Context, w Writer, k *model.Kind, q store.Query) (n int, last store.Commit, err error) {
	q.Limit = revokeBatch
	for {
		found := 0
		c, err := w.Write(ctx, model.Config, func(tx store.Tx) error {
			rows, err := store.ListAll(tx, k, q)
			if err != nil {
				return err
			}
			found = len(rows)
			for _, row := range rows {
				if err := tx.Delete(k, row.Scope, row.Name, 0); err != nil {
					return err
				}
			}
			return nil
		})
		if err == nil || len(c.Changes) > 0 {
			n, last = n+found, c
		}
		if untold := fault.Is(err, fault.Unavailable) && len(c.Changes) > 0; err != nil && !untold {
			return n, last, err
		}
		if found < revokeBatch {
			return n, last, nil
		}
	}
}
