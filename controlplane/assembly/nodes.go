package assembly

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/identity"
	"github.com/meshgate/meshgate/controlplane/insight"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/nodes"
	"github.com/meshgate/meshgate/controlplane/publish"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/telemetry"
)

// openNodes makes the registry of nodes and announces to it all nodes that may connect. Nodes
// that have a Dataplane or have enrolled are listed from the start. Gateways whose control plane was
// deleted are not, even if the process before has ended before it could forget them.
func (cp *ControlPlane) openNodes(ctx context.Context) error {
	cp.nodes = nodes.New(nodes.Options{
		Insights: cp.mesh.insights, Snapshots: cp.snapshots, Latest: cp.store.Revision, Instance: cp.instance,
		Scope: nodeScope, Problems: cp.unapplied, Filters: cp.filters, Gone: cp.revoker.Gone, GoneFormer: cp.revoker.GoneFormer, Stored: cp.storedNode, Delete: cp.deleteNode,
	})
	cp.openDumps()
	if err := cp.endDeleted(ctx); err != nil {
		return fmt.Errorf("look for deleted control planes: %w", err)
	}
	return cp.store.View(ctx, func(r store.Reader) error {
		meshes, unreadable, err := store.ListReadable(r, mesh.Meshes, "")
		if err != nil {
			return fmt.Errorf("list meshes: %w", err)
		}
		for _, m := range meshes {
			dataplanes, bad, err := store.ListReadable(r, mesh.Dataplanes, m.Name)
			if err != nil {
				return fmt.Errorf("list dataplanes of mesh %s: %w", m.Name, err)
			}
			unreadable = append(unreadable, bad...)
			for _, d := range dataplanes {
				cp.mesh.insights.Expect(mesh.NodeID(m.Name, d.Name))
			}
		}
		planes, err := controlPlaneScopes(r)
		if err != nil {
			return err
		}
		for _, plane := range planes {
			gateways, bad, err := store.ListReadable(r, gateway.Instances, plane)
			if err != nil {
				return fmt.Errorf("list gateways of %s: %w", plane, err)
			}
			unreadable = append(unreadable, bad...)
			for _, g := range gateways {
				cp.mesh.insights.Expect(identity.GatewayNode(g.Scope, g.Name))
			}
		}
		_, worse, err := cp.expectZoneProxies(r)
		if err != nil {
			return err
		}
		for _, err := range slices.Concat(unreadable, worse) {
			cp.Log.Error("a row cannot be read; its node is listed once it connects", "error", err)
		}
		return nil
	})
}

// nodeScope returns the scope of a node in the form that the publisher uses.
func nodeScope(typ, name string) string {
	switch typ {
	case insight.Gateway:
		return publish.ControlPlaneScope(name)
	case insight.Ingress, insight.Egress:
		return publish.ZoneScope
	}
	return publish.MeshScope(name)
}

// account returns what a connected node has acknowledged and rejected.
func (cp *ControlPlane) account(node string) (insight.Last, bool) {
	a, ok := cp.snapshots.Account(node)
	return insight.Last{Acknowledged: a.Acknowledged, Rejected: nodes.Rejected(a.Rejected)}, ok
}

// filters counts the filters of each node that may answer from memory.
func (cp *ControlPlane) filters() map[string]nodes.Filters {
	out := map[string]nodes.Filters{}
	for node, f := range cp.revoker.Filters() {
		out[node] = nodes.Filters(f)
	}
	return out
}

// placeOf returns where what is stored about a node is.
func placeOf(n insight.Node) (k *model.Kind, scope string) {
	switch n.Type {
	case insight.Sidecar:
		return mesh.Dataplanes, n.Scope
	case insight.Ingress, insight.Egress:
		return mesh.ZoneKind(n.Type), ""
	}
	return gateway.Instances, n.Scope
}

// storedNode reads what is stored about a node, also if it cannot be decoded; nil if nothing is.
func (cp *ControlPlane) storedNode(ctx context.Context, n insight.Node) (res *model.Resource, err error) {
	err = cp.store.View(ctx, func(r store.Reader) error {
		res, err = storedIn(r, n)
		return err
	})
	return res, err
}

func storedIn(r store.Reader, n insight.Node) (*model.Resource, error) {
	k, scope := placeOf(n)
	res, err := r.Get(k, scope, n.Name)
	if bare := store.UnreadIn(err); bare != nil {
		return bare, nil
	}
	if fault.Is(err, fault.NotFound) {
		return nil, nil //nolint:nilnil // nil is nothing
	}
	return res, err
}

// errAnew rolls back the removal of a node that has registered anew.
var errAnew = errors.New("the node has registered anew")

// deleteNode forgets a node that is gone for good, and deletes what was seen stored about it. Whether it has
// registered anew since then is decided in the transaction: otherwise a removal would delete what an agent
// has registered after the operator has looked, or what nobody may delete here. One that comes back as it was
// writes nothing, and is known by being connected: that is a Conflict.
func (cp *ControlPlane) deleteNode(ctx context.Context, n insight.Node, seen *model.Resource) (stays bool, err error) {
	away := func(now *model.Resource) error {
		switch {
		case !registration(seen, now):
			return errAnew
		case cp.connected(n.ID):
			return nodes.Connected(n.ID)
		}
		return nil
	}
	if k, scope := placeOf(n); k == gateway.Instances {
		_, err = cp.gate.Write(ctx, model.Credential, func(tx store.Tx) error {
			now, err := storedIn(tx, n)
			if err != nil || now == nil {
				return err
			}
			if err := away(now); err != nil {
				return err
			}
			return tx.Delete(k, scope, n.Name, 0)
		})
	} else {
		_, err = cp.gate.DeleteDocumentIf(ctx, k, scope, n.Name, func(_ store.Reader, now *model.Resource) error {
			return away(now)
		})
	}
	if errors.Is(err, errAnew) {
		return true, nil
	}
	if err != nil && !fault.Is(err, fault.NotFound) {
		return false, err
	}
	cp.loop.Forget(n.ID)
	cp.dropNode(n.ID)
	return false, nil
}

// registration reports whether a row is of the registration that was seen. A gateway writes its row whenever it
// enrols as something else; others than the agent write into Dataplanes, too. The rows of gateways make no
// revision, so a row that was made anew is told by its time as well.
func registration(seen, now *model.Resource) bool {
	if seen == nil || seen.Since("") != now.Since("") || !seen.Created.Equal(now.Created) {
		return false
	}
	if now.Kind == gateway.Instances {
		return seen.Version == now.Version
	}
	return instanceOf(seen) == instanceOf(now)
}

// dropNode forgets the tokens, roots and refusals of a node that is gone, so that a key that only this
// node has used no longer counts as in use.
func (cp *ControlPlane) dropNode(node string) {
	cp.uses.Forget(node)
	cp.roots.forget(node)
	cp.snapshots.Forget(node)
}

// nodeMetrics counts the nodes whenever it is scraped.
type nodeMetrics struct{ cp *ControlPlane }

var (
	nodesDesc = prometheus.NewDesc("meshgate_nodes",
		"Nodes that were seen or are expected and not removed, by what they are and whether they are connected, away, or away and refused.", []string{"type", "state"}, nil)
	awayDesc = prometheus.NewDesc("meshgate_node_away_since_timestamp_seconds",
		"Since when the node of a type is away that is away the longest, in seconds of Unix time; 0 if none is.", []string{"type"}, nil)
	silentDesc = prometheus.NewDesc("meshgate_node_envoys_away",
		"Connected nodes whose agents say that their Envoys do not run or do not answer.", []string{"type"}, nil)
	troubledDesc = prometheus.NewDesc("meshgate_node_troubled",
		"Connected nodes whose agents say that they are not ready or that a condition is not in order.", []string{"type"}, nil)
	refusalsDesc = prometheus.NewDesc("meshgate_node_refusals_total",
		"Refusals of nodes, by whether the name is that of a node which is known.", []string{"known"}, nil)
)

// Describe implements prometheus.Collector.
func (nodeMetrics) Describe(c chan<- *prometheus.Desc) {
	c <- nodesDesc
	c <- awayDesc
	c <- silentDesc
	c <- troubledDesc
	c <- refusalsDesc
}

// Collect implements prometheus.Collector.
func (m nodeMetrics) Collect(c chan<- prometheus.Metric) {
	away := m.cp.mesh.insights.AwaySince()
	for typ, states := range m.cp.nodes.Counts() {
		c <- prometheus.MustNewConstMetric(awayDesc, prometheus.GaugeValue, telemetry.Unix(away[typ]), typ)
		for state, n := range states {
			c <- prometheus.MustNewConstMetric(nodesDesc, prometheus.GaugeValue, float64(n), typ, state)
		}
	}
	for typ, n := range m.cp.mesh.insights.Silent() {
		c <- prometheus.MustNewConstMetric(silentDesc, prometheus.GaugeValue, float64(n), typ)
	}
	for typ, n := range m.cp.mesh.insights.Troubled() {
		c <- prometheus.MustNewConstMetric(troubledDesc, prometheus.GaugeValue, float64(n), typ)
	}
	known, strangers := m.cp.mesh.insights.Refusals()
	for of, n := range map[bool]uint64{true: known, false: strangers} {
		c <- prometheus.MustNewConstMetric(refusalsDesc, prometheus.CounterValue, float64(n), strconv.FormatBool(of))
	}
}

// connected reports whether a node is connected.
func (cp *ControlPlane) connected(node string) bool {
	n, ok := cp.mesh.insights.Node(node)
	return ok && n.State == insight.Connected
}
