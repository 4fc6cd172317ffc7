package main

import (
	"context"
	"sync"
	"time"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/identity"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// clustersTimeout bounds how long a reader waits for gateways. One that is
// slower counts as away.
const clustersTimeout = 3 * time.Second

// gatewayProxies reads what the gateways' Envoys see.
type gatewayProxies struct{ cp *controlPlane }

// Clusters implements adminapi.Proxies.
func (p gatewayProxies) Clusters(ctx context.Context, scope string) map[string][]byte {
	var instances []*model.Resource
	err := p.cp.store.View(ctx, func(r store.Reader) (err error) {
		instances, err = r.List(gateway.Instances, store.Query{Scope: scope})
		return err
	})
	if err != nil {
		p.cp.log.Error("the gateways cannot be listed", "error", err)
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, clustersTimeout)
	defer cancel()
	var mu sync.Mutex
	var asked sync.WaitGroup
	out := map[string][]byte{}
	for _, instance := range instances {
		asked.Go(func() {
			text, err := p.cp.mesh.admin.Ask(ctx, identity.GatewayNode(scope, instance.Name), "/clusters?format=json")
			if err != nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			out[instance.Name] = text
		})
	}
	asked.Wait()
	return out
}
