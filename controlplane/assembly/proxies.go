package assembly

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/meshgate/meshgate/controlplane/enrol"
	"github.com/meshgate/meshgate/controlplane/insight"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/meshapi"
	"github.com/meshgate/meshgate/controlplane/meshca"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/publish"
	"github.com/meshgate/meshgate/xds/plan"
	"github.com/meshgate/meshgate/xds/policy"
	xds "github.com/meshgate/meshgate/xds/server"
)

// observer records streams, and the versions that proxies report, in the insights.
type observer struct {
	*insight.Insights
	rotations *meshca.Rotations
	removals  *enrol.Removals
	meter     xds.Observer
}

// Connected implements the ADS server's Observer.
func (o observer) Connected(e xds.Event) {
	if len(e.Metadata) > 0 {
		o.Described(e.Node, versionsOf(e.Metadata))
	}
	o.Insights.Connected(e)
	o.meter.Connected(e)
	if meshName, dataplane, err := publish.ParseProxy(e.Node); err == nil {
		o.removals.Connected(meshName, dataplane)
		o.rotations.ProxiesChanged(meshName)
	} else if proxyType, name, ok := mesh.ParseZoneNode(e.Node); ok {
		o.removals.Connected(mesh.ZoneNodeScope(proxyType), name)
	}
	if proxyType, _, ok := mesh.ParseZoneNode(e.Node); ok && proxyType == mesh.ProxyEgress {
		o.rotations.EgressesChanged()
	}
}

// Sent implements the ADS server's Observer.
func (o observer) Sent(e xds.Event) {
	o.Insights.Sent(e)
	o.meter.Sent(e)
}

// Acknowledged implements the ADS server's Observer.
func (o observer) Acknowledged(e xds.Event) {
	o.Insights.Acknowledged(e)
	o.meter.Acknowledged(e)
}

// Rejected implements the ADS server's Observer.
func (o observer) Rejected(e xds.Event) {
	o.Insights.Rejected(e)
	o.meter.Rejected(e)
}

// Disconnected implements the ADS server's Observer.
func (o observer) Disconnected(e xds.Event) {
	o.Insights.Disconnected(e)
	o.meter.Disconnected(e)
	if meshName, dataplane, err := publish.ParseProxy(e.Node); err == nil {
		o.removals.Disconnected(meshName, dataplane)
	} else if proxyType, name, ok := mesh.ParseZoneNode(e.Node); ok {
		o.removals.Disconnected(mesh.ZoneNodeScope(proxyType), name)
	}
}

// versionsOf reads the versions from the metadata of a node.
func versionsOf(m map[string]string) insight.Versions {
	var dependencies map[string]string
	for key, v := range m {
		if name, ok := strings.CutPrefix(key, "version.dependencies."); ok {
			if dependencies == nil {
				dependencies = map[string]string{}
			}
			dependencies[name] = v
		}
	}
	return insight.Versions{
		Dependencies: dependencies,
		MeshDP: insight.AgentVersion{
			Version: m["version.meshDp.version"], GitTag: m["version.meshDp.gitTag"], GitCommit: m["version.meshDp.gitCommit"],
			BuildDate: m["version.meshDp.buildDate"], MeshCPCompatible: true,
		},
		Proxy: insight.ProxyVersion{
			Version: m["version.proxy.version"], Build: m["version.proxy.build"], MeshDPCompatible: true,
		},
	}
}

// insights gives the mesh API what is known about proxies and zones.
type insights struct{ cp *ControlPlane }

// Read implements meshapi.Insights.
func (i insights) Read(ctx context.Context, k *model.Kind, scope, name string) (document any, ok bool, err error) {
	switch {
	case k == mesh.Dataplanes:
		return i.cp.mesh.insights.Read(ctx, scope, name)
	case mesh.ZoneProxyOf(k.Name) != "":
		in, ok, err := i.cp.mesh.insights.Read(ctx, mesh.ZoneNodeScope(mesh.ZoneProxyOf(k.Name)), name)
		if in != nil { // what is known of its certificates is of no one mesh
			in.MTLS = nil
		}
		return in, ok, err
	case k == mesh.Zones && i.cp.zoneOnline(name):
		return i.cp.zoneInsight(), true, nil
	}
	return nil, false, nil
}

// problems lists what is wrong with the configuration of proxies.
type problems struct{ cp *ControlPlane }

// Of implements meshapi.Problems.
func (p problems) Of(meshName, dataplane string) []string {
	var out []string
	for _, f := range p.cp.loop.FailuresOf(publish.MeshScope(meshName), dataplane) {
		out = append(out, sentence(f))
	}
	return append(out, p.refused(meshName, dataplane)...)
}

// About implements inspect.Problems.
func (p problems) About(meshName, dataplane string, pol *policy.Policy, name string) (out []string) {
	for _, f := range p.cp.loop.FailuresOf(publish.MeshScope(meshName), dataplane) {
		if slices.Contains(f.By, pol.Named(name)) {
			out = append(out, sentence(f))
		}
	}
	return append(out, p.refused(meshName, dataplane)...)
}

// refused says whether a proxy is turned away, and what it refuses.
func (p problems) refused(meshName, dataplane string) (out []string) {
	if n, _ := p.cp.mesh.insights.Node(mesh.NodeID(meshName, dataplane)); n.State == insight.Refused {
		// The reason is for administrators only: see GET /nodes.
		out = append(out, "the proxy is away and refused since "+n.Refusal.Since.Format(time.RFC3339)+": GET /nodes says why")
	}
	for _, r := range p.cp.snapshots.Rejections(mesh.NodeID(meshName, dataplane)) {
		out = append(out, "the proxy refused "+string(r.Type)+": "+r.Error)
	}
	return out
}

// unapplied lists what is not applied as it is configured for a node. An outbound to a
// service that nobody serves yet is left out, because services may be created in any order.
func (cp *ControlPlane) unapplied(n insight.Node) []string {
	var out []string
	of := n.Name
	if mesh.ZoneKind(n.Type) != nil {
		of = publish.ZoneProxy(n.Type, n.Name)
	}
	for _, f := range cp.loop.FailuresOf(nodeScope(n.Type, n.Scope), of) {
		if !f.Awaited {
			out = append(out, sentence(f))
		}
	}
	slices.Sort(out)
	return out
}

func sentence(f plan.Failure) string {
	text := f.Cell + ": " + f.Err.Error()
	if f.Kept {
		text += " (the last good version is kept)"
	}
	return text
}

var _ meshapi.Insights = insights{}
