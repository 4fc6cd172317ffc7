package agent

import (
	"context"
	"errors"
	"fmt"

	"github.com/meshgate/meshgate/filter/contract"
)

// authzAddress returns where Envoy asks the authorization service, or "" if it has a filter of
// its own.
func (a *Agent) authzAddress() string {
	if a.Authz != nil {
		return a.dir.authz
	}
	return a.AuthzAddress
}

// openAuthz opens the agent's own authorization service, if there is one, so that Envoy finds
// it. The service lives longer than Envoy, whose last requests it decides.
func (a *Agent) openAuthz(ctx context.Context) (serve func(context.Context) error, err error) {
	if a.Authz == nil {
		return func(context.Context) error { return nil }, nil
	}
	name, err := a.processes.begin()
	if err != nil {
		return nil, err
	}
	if err := a.Authz.Open(ctx, contract.UnixPrefix+a.dir.authz, a.dir.settings, name); err != nil {
		return nil, errors.Join(fmt.Errorf("filter.mode %s: %w", a.Filter, err), a.processes.end(name))
	}
	return func(ctx context.Context) error {
		err := a.Authz.Serve(ctx)
		if noted := a.processes.end(name); noted != nil {
			a.Log.Warn("the end of the authorization service cannot be noted", "error", noted)
		}
		return err
	}, nil
}
