// Package nodestest has a few nodes for tests of APIs that show nodes.
package nodestest

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/insight"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/nodes"
)

// Nodes holds documents in the order of their names. It is not safe for concurrent use.
type Nodes struct {
	Documents []nodes.Node
	// Awaited are the marks that were waited for. Failing is the error of each removal.
	Awaited []string
	Failing error
}

// New returns a gateway in step, a sidecar that rejects configuration, a node that is
// refused, and one that never came.
func New() *Nodes {
	at := func(minute int) *time.Time {
		t := time.Date(2026, 3, 1, 12, minute, 0, 0, time.UTC)
		return &t
	}
	return &Nodes{Documents: []nodes.Node{
		{
			Name: "cp/default/gw-1", Type: insight.Gateway, ControlPlane: "default", State: insight.Connected, Since: at(1), InStep: true,
			Revisions: nodes.Revisions{Desired: 67, Sent: 67, Acknowledged: 67}, Rejected: []insight.Rejected{},
			Versions:           nodes.Versions{Envoy: "1.39.3", Module: "v1.0.0", Agent: "v1.0.0"},
			CertificateExpires: at(30), TokenExpires: at(50), Filters: nodes.Filters{Known: 1, Linked: 1},
		},
		{
			Name: "default.api", Type: insight.Sidecar, Mesh: "default", State: insight.Connected, Since: at(2),
			Revisions: nodes.Revisions{Desired: 67, Sent: 67, Acknowledged: 60},
			Rejected:  []insight.Rejected{{Type: "Listener", Resources: []string{"inbound:127.0.0.2:80"}, Error: "cannot bind '127.0.0.2:80': Permission denied"}},
			Versions:  nodes.Versions{Envoy: "1.39.3", Agent: "v1.0.0"},
		},
		{
			Name: "default.never", Type: insight.Sidecar, Mesh: "default", State: insight.Away, Reason: "it was never connected",
			Revisions: nodes.Revisions{Desired: 67}, Rejected: []insight.Rejected{},
		},
		{
			Name: "default.web", Type: insight.Sidecar, Mesh: "default", State: insight.Refused, Since: at(3), Reason: "signing key 3 is gone",
			Refusal:   &insight.Refusal{Since: *at(3), Time: *at(4), Count: 30, Reason: "signing key 3 is gone", Proved: true},
			Revisions: nodes.Revisions{Desired: 67, Sent: 66, Acknowledged: 66}, Rejected: []insight.Rejected{},
			Versions: nodes.Versions{Envoy: "1.39.3", Agent: "v1.0.0"}, TokenExpires: at(50),
		},
	}}
}

// List answers a query.
func (n *Nodes) List(q nodes.Query) nodes.Page {
	p := nodes.Page{Nodes: []nodes.Node{}, Mark: "cp-1.7.9"}
	for _, d := range n.Documents {
		picked := q.State == "" || d.State == q.State || q.State == insight.Away && d.State == insight.Refused
		if !picked || !strings.Contains(d.Name, q.Part) || q.Sees != nil && !q.Sees(d.Name) {
			continue
		}
		if p.Total++; d.Name > q.After {
			p.Nodes = append(p.Nodes, d)
		}
	}
	p.Nodes = p.Nodes[min(q.Offset, len(p.Nodes)):]
	if q.Size > 0 && len(p.Nodes) > q.Size {
		p.Nodes, p.More = p.Nodes[:q.Size], true
	}
	return p
}

// Await returns at once.
func (n *Nodes) Await(_ context.Context, mark string) { n.Awaited = append(n.Awaited, mark) }

// Get returns one node.
func (n *Nodes) Get(name string) (nodes.Node, error) {
	for _, d := range n.Documents {
		if d.Name == name {
			return d, nil
		}
	}
	return nodes.Node{}, fault.New(fault.NotFound, "node %q is not known", name)
}

// Remove removes a node that is away.
func (n *Nodes) Remove(_ context.Context, name string, _ func(*model.Kind) error) error {
	if n.Failing != nil {
		return n.Failing
	}
	i := slices.IndexFunc(n.Documents, func(d nodes.Node) bool { return d.Name == name })
	switch {
	case i < 0:
		return fault.New(fault.NotFound, "node %q is not known", name)
	case n.Documents[i].State == insight.Connected:
		return nodes.Connected(name)
	}
	n.Documents = slices.Delete(n.Documents, i, i+1)
	return nil
}

// RemoveFormer accepts a connected node, and does nothing.
func (n *Nodes) RemoveFormer(name string) error {
	d, err := n.Get(name)
	if err == nil && d.State != insight.Connected {
		err = fault.New(fault.Conflict, "no filter of node %s is connected, so nobody can tell the one that runs from those that are gone", name)
	}
	return err
}
