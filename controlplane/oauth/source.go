package oauth

import (
	"context"
	"encoding/hex"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/scopes"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/filter/contract"
)

// Source answers what the store knows about a token hash.
type Source struct {
	Store store.Store
	// Resolver says what the scopes that are asked about consist of; nil is [scopes.Each].
	Resolver scopes.Resolver
	Now      func() time.Time
}

// Record returns the record of a token and Found; nil if there is no such token,
// or it has expired, and which of the two. The revision is that of the state which
// was read, in any case.
func (s *Source) Record(ctx context.Context, scope string, token contract.Hash) (rec *contract.Record, answer contract.Answer, revision uint64, err error) {
	err = s.Store.View(ctx, func(r store.Reader) error {
		revision = r.Revision()
		by := scopes.OrEach(s.Resolver)
		src, err := by.Resolve(r, scope)
		if err != nil {
			return err
		}
		rec, err = record(r, by, src, token, s.Now())
		answer = contract.Found
		switch {
		case fault.Is(err, fault.NotFound):
			rec, answer, err = nil, contract.Unknown, nil
		case rec == nil:
			answer = contract.Expired
		}
		return err
	})
	if rec != nil {
		rec.Revision = revision
	}
	return rec, answer, revision, err
}

// record looks for an access token and then for an API key: a hash cannot be
// both. It is nil for one that has expired. Its owners are in the scope of its row.
func record(r store.Reader, by scopes.Resolver, src scopes.Source, hash contract.Hash, now time.Time) (*contract.Record, error) {
	index := hex.EncodeToString(hash[:])
	res, err := src.Find(gateway.Tokens, gateway.IndexAccessToken, index)
	if fault.Is(err, fault.NotFound) {
		return keyRecord(r, by, src, index, now)
	}
	if err != nil {
		return nil, err
	}
	return tokenRecord(r, by, src, res, now)
}

// Made returns what Record would return of a token, from the row that r has of it.
func (s *Source) Made(r store.Reader, res *model.Resource) (*contract.Record, error) {
	by := scopes.OrEach(s.Resolver)
	src, err := by.Resolve(r, res.Scope)
	if err != nil {
		return nil, err
	}
	rec, err := madeRecord(r, by, src, res, s.Now())
	if fault.Is(err, fault.NotFound) {
		return nil, nil //nolint:nilnil // there is none
	}
	return rec, err
}

// madeRecord is the record of an access token or of an API key.
func madeRecord(r store.Reader, by scopes.Resolver, src scopes.Source, res *model.Resource, now time.Time) (*contract.Record, error) {
	if res.Kind == gateway.Keys {
		return recordOfKey(r, by, src, res, now)
	}
	return tokenRecord(r, by, src, res, now)
}

// tokenRecord is record for the row of a token.
func tokenRecord(r store.Reader, by scopes.Resolver, src scopes.Source, res *model.Resource, now time.Time) (*contract.Record, error) {
	if err := reachableToken(src, res); err != nil {
		return nil, err
	}
	token := res.Spec.(*gateway.Token)
	expires := lifetime(res)
	if expires != 0 && now.UnixMilli() >= expires {
		return nil, nil
	}
	app, err := shownBy(r, src, res)
	if err != nil {
		return nil, err
	}
	consumer, err := consumerOf(r, src, res.Scope, app.Spec.(*gateway.Application).Consumer)
	if err != nil {
		return nil, err
	}
	own, err := leftOut(r, by, res, app, consumer)
	if err != nil {
		return nil, err
	}
	return &contract.Record{
		Version: contract.RecordVersion, Expires: expires, Plane: res.Scope, Service: token.Service, ServicePlane: token.ServicePlane, Own: own,
		Credential: contract.Credential{ID: app.Name, ClientID: app.Spec.(*gateway.Application).ClientID},
		Consumer:   told(consumer), Scope: token.Scope, UserID: token.AuthenticatedUserID,
	}, nil
}

// keyRecord is record for API keys.
func keyRecord(r store.Reader, by scopes.Resolver, src scopes.Source, index string, now time.Time) (*contract.Record, error) {
	res, err := src.Find(gateway.Keys, gateway.IndexKey, index)
	if err != nil {
		return nil, err
	}
	return recordOfKey(r, by, src, res, now)
}

// recordOfKey is record for the row of an API key.
func recordOfKey(r store.Reader, by scopes.Resolver, src scopes.Source, res *model.Resource, now time.Time) (*contract.Record, error) {
	key := res.Spec.(*gateway.Key)
	if key.DropAt != 0 && now.UnixMilli() >= key.DropAt {
		return nil, nil
	}
	consumer, err := consumerOf(r, src, res.Scope, key.Consumer)
	if err != nil {
		return nil, err
	}
	if err := src.Counts(res, shown(res.Kind)...); err != nil {
		return nil, err
	}
	own, err := leftOut(r, by, res, res, consumer)
	if err != nil {
		return nil, err
	}
	return &contract.Record{
		Version: contract.RecordVersion, Expires: key.DropAt, Plane: res.Scope, Key: true, Own: own,
		Credential: contract.Credential{ID: res.Name, ClientID: res.Name}, Consumer: told(consumer),
	}, nil
}

// consumerOf is whom upstreams are told; nobody, if another member had one first whom they
// could take for this one.
func consumerOf(r store.Reader, src scopes.Source, scope, id string) (*model.Resource, error) {
	res, err := r.Get(gateway.Consumers, scope, id)
	if err == nil {
		err = src.Counts(res, shown(res.Kind)...)
	}
	return res, err
}

// told is what upstreams are told of a consumer.
func told(res *model.Resource) *contract.Consumer {
	c := res.Spec.(*gateway.Consumer)
	return &contract.Consumer{ID: res.Name, Username: c.Username, CustomID: c.CustomID}
}

// lifetime is the first millisecond at which the token is refused: the end of
// its own validity or of its row, whichever is first; 0 = never.
func lifetime(res *model.Resource) int64 {
	token := res.Spec.(*gateway.Token)
	expires := contract.ExpiresAt(res.Created, token.ExpiresIn)
	if expires == 0 || (token.DropAt != 0 && token.DropAt < expires) {
		return token.DropAt
	}
	return expires
}
