package oauth

import (
	"context"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// rehash replaces the stored secrets of an authenticated application if they should be hashed
// and are not, or are hashed with outdated parameters. If somebody else writes the
// application meanwhile, that write wins, and the next request tries again.
//
// The write path treats every change of an application as a revocation and leaves a
// tombstone. Gateways forget what they know of its tokens and ask again, which costs one
// look-up each and refuses nothing. This happens once for each secret, so the write path
// needs no exception, which could be abused.
//
// A failure is no reason to refuse a client that has authenticated. If the disk takes no
// writes, the store logs the reason once; a line for each client would fill the disk up. A
// change that is stored but could not be confirmed everywhere counts as done. Source:
// requirement "hash_secret".
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

// rehashed returns the form in which a secret should be stored, or the stored form if it
// cannot be changed. A hash with outdated parameters can be replaced only if the given secret
// matches it.
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
	if err != nil { // impossible, because the parameters are valid constants
		return stored
	}
	return hash
}
