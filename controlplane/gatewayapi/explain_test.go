package gatewayapi_test

import (
	"context"

	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/turns"
	"github.com/meshgate/meshgate/inspect/explain"
	"github.com/meshgate/meshgate/xds/resource"
)

// noGateways explains requests where one gateway is known, for which nothing is planned.
func noGateways() *explain.Gateways {
	return &explain.Gateways{
		Scope: model.DefaultControlPlane, Nodes: func() []string { return []string{"cp/default/gw-1"} },
		Last:    func(string) *resource.Set { return nil },
		Planned: func(context.Context) error { return nil }, Turns: turns.Sized(1, 1),
	}
}
