package explain

import (
	"context"

	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/engine"
	"github.com/meshgate/meshgate/inspect/interpret"
)

// Records returns what the store knows of the hash of a credential in the scope of a control
// plane, as introspection does: no record with Unknown or Expired. The credential itself is never
// looked up or compared, so an answer takes the same time however much of it is right.
type Records func(ctx context.Context, scope string, hash contract.Hash) (rec *contract.Record, answer contract.Answer, revision uint64, err error)

// check asks for records in a scope, that of the default control plane if it is empty. Nil
// records know nothing.
func (r Records) check(ctx context.Context, scope string) interpret.Check {
	if r == nil {
		return nil
	}
	if scope == "" {
		scope = model.DefaultControlPlane
	}
	return func(hash contract.Hash, _ string) engine.Found {
		rec, answer, _, err := r(ctx, scope, hash)
		switch {
		case err != nil:
			return engine.Found{Hash: hash, Answer: contract.Unavailable}
		case rec == nil:
			return engine.Found{Hash: hash, Answer: answer}
		}
		return engine.Found{Hash: hash, Answer: contract.Found, Packed: rec.Pack(nil)}
	}
}
