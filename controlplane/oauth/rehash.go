package oauth

import (
	"context"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// rehash replaces stored secrets of an authenticated application that should be
// hashed and are not, or with parameters of the past. Whoever writes the
// application meanwhile wins; the next request tries again.
//
// The write path takes every change of an application for a revocation and
// leaves a tombstone: gateways forget what they know of its tokens and ask
// again, which costs one look-up each and refuses nothing. It happens once for
// each secret, so the write path needs no exception, which could be abused.
//
// A failure is no reason to refuse a client that has proved who it is. Of a disk that
// takes nothing the store says once why: a line for each client would fill it up. What is
// stored and could not be confirmed everywhere is done all the same.
// Source: requirement "hash_secret".
func (s *Server) rehash(ctx context.Context, t *Request, given string) {
	app := t.Spec()
	if !app.HashSecret {
		return
	}
	if !s.hashing.TryEnter() {
		return // the next request tries again
	}
	fresh := *app
	fresh.ClientSecret = rehashed(app.ClientSecret, given)
	fresh.SecondarySecret = rehashed(app.SecondarySecret, given)
	s.hashing.Leave()
	if fresh.ClientSecret == app.ClientSecret && fresh.SecondarySecret == app.SecondarySecret {
		return
	}
	var stored *model.Resource
	commit, err := s.Writer.Write(ctx, model.Config, func(tx store.Tx) (err error) {
		stored, err = tx.Update(&model.Resource{
			Kind: gateway.Applications, Scope: t.owner(), Name: t.Application.Name, Spec: &fresh,
		}, t.Application.Version)
		return err
	})
	if len(commit.Changes) > 0 {
		t.Application = stored
	}
	switch {
	case err == nil, fault.Is(err, fault.Conflict), fault.Is(err, fault.NotFound):
	case fault.Is(err, fault.Unstored), fault.Is(err, fault.Unavailable):
		s.Log.DebugContext(ctx, "a client secret that is hashed anew was not stored, or not confirmed", "application", t.Application.Name, "error", err)
	default:
		s.Log.WarnContext(ctx, "a client secret could not be hashed anew", "application", t.Application.Name, "error", err)
	}
}

// rehashed returns the stored form that a secret should have, or the one it
// has: of a hash with other parameters the secret is known only if it is the
// one that was given.
func rehashed(stored, given string) string {
	hashed, current := gateway.Hashed(stored)
	secret := given
	switch {
	case stored == "" || current:
		return stored
	case !hashed:
		secret = stored
	case !gateway.VerifySecret(stored, given):
		return stored
	}
	hash, err := gateway.HashSecret(secret)
	if err != nil { // parameters that are constants are accepted
		return stored
	}
	return hash
}
