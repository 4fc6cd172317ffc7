package assembly

import (
	"context"
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
		Scope: nodeScope, Problems: cp.unapplied, Filters: cp.filters, Gone: cp.revoker.Gone, GoneFormer: cp.revoker.GoneFormer, Delete: cp.deleteNode,
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

// deleteNode deletes what is stored about a node that is gone for good.
func (cp *ControlPlane) deleteNode(ctx context.Context, n insight.Node) (err error) {
	switch n.Type {
	case insight.Sidecar:
		_, err = cp.gate.DeleteDocument(ctx, mesh.Dataplanes, n.Scope, n.Name)
	case insight.Ingress, insight.Egress:
		_, err = cp.gate.DeleteDocument(ctx, mesh.ZoneKind(n.Type), "", n.Name)
	default:
		_, err = cp.gate.Write(ctx, model.Credential, func(tx store.Tx) error {
			return tx.Delete(gateway.Instances, n.Scope, n.Name, 0)
		})
	}
	if err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	cp.loop.Forget(n.ID)
	cp.dropNode(n.ID)
	return nil
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
