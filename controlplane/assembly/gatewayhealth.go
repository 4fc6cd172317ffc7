package assembly

import (
	"context"
	"sync"
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
	// clustersAtOnce bounds the questions that are open at a time for all readers, because
	// answers can be large. An answer is dropped before the next question takes its place.
	clustersAtOnce = 16
)

// gatewayProxies reads what the Envoys of gateways report.
type gatewayProxies struct {
	cp *ControlPlane
	// asking has an element for each question that is open; see clustersAtOnce.
	asking chan struct{}
}

// Clusters implements gatewayapi.Proxies.
func (p gatewayProxies) Clusters(ctx context.Context, scope string, read func(node string, text []byte)) {
	var instances []*model.Resource
	err := p.cp.store.View(ctx, func(r store.Reader) (err error) {
		instances, err = r.List(gateway.Instances, store.Query{Scope: scope})
		return err
	})
	if err != nil {
		p.cp.Log.Error("the gateways cannot be listed", "error", err)
		return
	}
	names := make([]string, len(instances))
	for i, instance := range instances {
		names[i] = instance.Name
	}
	askGateways(ctx, p.asking, names, func(ctx context.Context, name string) ([]byte, error) {
		return p.cp.mesh.admin.Ask(ctx, identity.GatewayNode(scope, name), "/clusters?format=json")
	}, read)
}

// askGateways asks the named gateways in order, as many at a time as asking has room for, and
// passes each answer to read, one at a time.
func askGateways(ctx context.Context, asking chan struct{}, names []string,
	ask func(ctx context.Context, name string) ([]byte, error), read func(name string, text []byte)) {
	ctx, cancel := context.WithTimeout(ctx, clustersTimeout)
	defer cancel()
	var asked errgroup.Group
	asked.SetLimit(cap(asking))
	var reading sync.Mutex
	for _, name := range names {
		asked.Go(func() error {
			select {
			case asking <- struct{}{}:
			case <-ctx.Done():
				return nil
			}
			defer func() { <-asking }()
			ctx, cancel := context.WithTimeout(ctx, clusterTimeout)
			defer cancel()
			if text, err := ask(ctx, name); err == nil {
				reading.Lock()
				defer reading.Unlock()
				read(name, text)
			}
			return nil
		})
	}
	_ = asked.Wait() // a gateway that does not answer counts as away
}
