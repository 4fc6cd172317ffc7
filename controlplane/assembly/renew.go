package assembly

import (
	"context"
	"log/slog"
	"time"

	"github.com/meshgate/meshgate/xds/resource"
)

// renewEvery is the interval at which the certificates of connected proxies are checked. They
// are renewed when a third of their life is left. That is days, so an hour more or less does
// not matter.
const renewEvery = time.Hour

// renewer pushes renewed certificates to proxies whose streams stay open. A proxy asks for a
// secret once, and would otherwise keep it until it expires.
type renewer struct {
	nodes   func() []string
	secrets func(node string) []string
	secret  func(ctx context.Context, node, name, generation string) (*resource.Resource, error)
	// generation returns the generation of a secret that the set of a node wants now.
	generation func(node, name string) string
	push       func(node, generation string, r *resource.Resource)
	log        *slog.Logger
	// sent holds the version of each secret by node and name.
	sent map[[2]string]string
}

// run works at each tick and whenever it is woken, until ctx ends. It calls first at the
// start and at each tick, before the work.
func (r *renewer) run(ctx context.Context, tick <-chan time.Time, wake <-chan struct{}, first func(context.Context)) error {
	first(ctx)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick:
			first(ctx)
		case <-wake:
		}
		r.round(ctx)
	}
}

// round pushes every secret that has changed since the last round.
func (r *renewer) round(ctx context.Context) {
	current := map[[2]string]string{}
	for _, node := range r.nodes() {
		for _, name := range r.secrets(node) {
			key := [2]string{node, name}
			generation := r.generation(node, name)
			res, err := r.secret(ctx, node, name, generation)
			if err != nil {
				r.log.Warn("a certificate could not be renewed", "node", node, "secret", name, "error", err)
				current[key] = r.sent[key]
				continue
			}
			current[key] = res.Version
			if r.sent[key] != res.Version {
				r.push(node, generation, res)
			}
		}
	}
	r.sent = current
}
