package assembly

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/identity"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// Limits of a question to all gateways. A gateway that does not answer in time counts as
// away.
const (
	// clustersTimeout bounds how long a reader waits for all gateways, clusterTimeout for
	// each, so that a few gateways that hang do not keep the reader from the others.
	clustersTimeout = 3 * time.Second
	clusterTimeout  = time.Second
	// clustersAtOnce bounds the questions that are open at a time, because answers can be
	// large.
	clustersAtOnce = 16
)

// gatewayProxies reads what the Envoys of gateways report.
type gatewayProxies struct{ cp *ControlPlane }

// Clusters implements gatewayapi.Proxies.
func (p gatewayProxies) Clusters(ctx context.Context, scope string) map[string][]byte {
	var instances []*model.Resource
	err := p.cp.store.View(ctx, func(r store.Reader) (err error) {
		instances, err = r.List(gateway.Instances, store.Query{Scope: scope})
		return err
	})
	if err != nil {
		p.cp.Log.Error("the gateways cannot be listed", "error", err)
		return nil
	}
	names := make([]string, len(instances))
	for i, instance := range instances {
		names[i] = instance.Name
	}
	return askGateways(ctx, names, func(ctx context.Context, name string) ([]byte, error) {
		return p.cp.mesh.admin.Ask(ctx, identity.GatewayNode(scope, name), "/clusters?format=json")
	})
}

// askGateways asks the named gateways in order, [clustersAtOnce] at a time, and returns the
// answers by name.
func askGateways(ctx context.Context, names []string, ask func(ctx context.Context, name string) ([]byte, error)) map[string][]byte {
	ctx, cancel := context.WithTimeout(ctx, clustersTimeout)
	defer cancel()
	answers := make([][]byte, len(names))
	var asked errgroup.Group
	asked.SetLimit(clustersAtOnce)
	for i, name := range names {
		asked.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, clusterTimeout)
			defer cancel()
			if text, err := ask(ctx, name); err == nil {
				answers[i] = text
			}
			return nil
		})
	}
	_ = asked.Wait() // a gateway that does not answer counts as away
	out := map[string][]byte{}
	for i, name := range names {
		if answers[i] != nil {
			out[name] = answers[i]
		}
	}
	return out
}
