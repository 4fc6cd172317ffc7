package nodes

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/meshgate/meshgate/controlplane/health"
	"github.com/meshgate/meshgate/controlplane/insight"
	"github.com/meshgate/meshgate/controlplane/mesh"
)

// Node is one node as the APIs show it.
type Node struct {
	// Name is the node id: <mesh>.<dataplane>, cp/<control plane>/<instance>, or
	// zone/<type>/<name>.
	Name string `json:"name"`
	// Type is sidecar, gateway, or ingress or egress of a zone.
	Type         string `json:"type" jsonschema:"enum=sidecar,enum=gateway,enum=ingress,enum=egress"`
	Mesh         string `json:"mesh,omitempty"`
	ControlPlane string `json:"controlPlane,omitempty"`
	// State is connected, away or refused. Who is refused is away.
	State string `json:"state" jsonschema:"enum=connected,enum=away,enum=refused"`
	// Since is when it connected, or since when it is away; missing if it never
	// connected.
	Since *time.Time `json:"since,omitempty"`
	// First is when it connected for the first time, as far as is remembered. The cloud API shows it.
	First *time.Time `json:"-"`
	// Reason says why it is away, or why nothing but filters is known of one that is connected.
	Reason string `json:"reason,omitempty"`
	// Returning says of one that is away that it was sent off a moment ago to come back with
	// the newer token that it has.
	Returning bool `json:"returning,omitempty"`
	// Refusal is the newest one since it was connected last. Of a connected node it is
	// that of its filter, or of somebody else who comes with its name.
	Refusal *insight.Refusal `json:"refusal,omitempty"`
	// Trouble is what its agent says is the matter with its Envoy, which serves nobody then.
	Trouble *insight.Trouble `json:"trouble,omitempty"`
	// NotReady is the message of its /ready while its agent says that this is not 200, and
	// Conditions are what its agent says is not in order.
	NotReady   string             `json:"notReady,omitempty"`
	Conditions []health.Condition `json:"conditions,omitempty"`
	// NotReadySince is when this control plane heard that it is not ready.
	NotReadySince *time.Time `json:"notReadySince,omitempty"`
	// InStep says that it is connected, has acknowledged everything, refuses nothing, and
	// that its agent has not said that its Envoy is away.
	InStep    bool      `json:"inStep"`
	Revisions Revisions `json:"revisions"`
	// Rejected is what it refuses, in its own words; of one that is away, what it refused
	// when it left.
	Rejected []insight.Rejected `json:"rejected"`
	// Problems say what is not applied as it is configured, because it cannot be: it is left
	// out, or its last good version is kept. A node can be in step all the same.
	Problems           []string   `json:"problems,omitempty"`
	Versions           Versions   `json:"versions"`
	CertificateExpires *time.Time `json:"certificateExpires,omitempty"`
	TokenExpires       *time.Time `json:"tokenExpires,omitempty"`
	// Filters may answer for tokens from what they remember, so revocations wait for
	// them; see docs/adr/0003-freshness.md.
	Filters Filters `json:"filters"`
}

// Revisions are how far a node is.
type Revisions struct {
	// Desired is the newest revision that its mesh or control plane shows.
	Desired uint64 `json:"desired"`
	// Sent is the newest one of which it was sent something, or everything if nothing
	// of a newer one concerns it.
	Sent uint64 `json:"sent"`
	// Acknowledged is the newest one of which it holds everything.
	Acknowledged uint64 `json:"acknowledged"`
}

// Versions are what a node says that it runs.
type Versions struct {
	Envoy  string `json:"envoy,omitempty"`
	Module string `json:"module,omitempty"`
	Agent  string `json:"agent,omitempty"`
}

// Filters counts the filters of a node that are known, and those of them that are
// linked.
type Filters struct {
	Known  int `json:"known" jsonschema:"minimum=0"`
	Linked int `json:"linked" jsonschema:"minimum=0"`
}

// Condition is the name of the control plane's condition that something is the matter with
// connected nodes.
const Condition = "nodes"

// Why a node is away that nobody refused.
const (
	reasonNever   = "it was never connected"
	reasonLeft    = "it left, or its connection broke"
	reasonFilters = "only filters of it are remembered, which may answer from what they know"
	// reasonLinked is that of a node which is no proxy of this control plane.
	reasonLinked = "it takes no configuration from here, and its filter is linked: an authorization service, or an Envoy that is configured elsewhere"
)

// document shows a node. filters are those of its name.
func (r *Registry) document(n insight.Node, f Filters) Node {
	d := Node{
		Name: n.ID, Type: n.Type, State: n.State, Returning: n.Returning, Refusal: n.Refusal, Trouble: n.Trouble, Since: moment(n.Since), First: moment(n.First), Reason: reason(n),
		NotReady: n.NotReady, NotReadySince: moment(n.NotReadySince), Conditions: n.Conditions,
		CertificateExpires: moment(n.CertificateExpires), TokenExpires: moment(n.TokenExpires), Filters: f,
	}
	switch n.Type {
	case insight.Gateway:
		d.ControlPlane = n.Scope
	case insight.Sidecar:
		d.Mesh = n.Scope
	}
	if v := n.Versions; v != nil {
		d.Versions = Versions{Envoy: v.Proxy.Version, Agent: v.MeshDP.Version, Module: v.Dependencies["module"]}
	}
	last := n.Last
	account, connected := r.Snapshots.Account(n.ID)
	if connected = connected && n.State == insight.Connected; connected {
		last = insight.Last{Acknowledged: account.Acknowledged, Rejected: Rejected(account.Rejected)}
		d.Revisions.Desired = account.Desired
	} else if shown, known := r.Snapshots.Shown(r.Scope(n.Type, n.Scope)); known {
		d.Revisions.Desired = shown
	} else {
		d.Revisions.Desired = r.Latest()
	}
	d.Revisions.Acknowledged = last.Acknowledged
	d.Revisions.Sent = min(max(n.Sent, last.Acknowledged), max(d.Revisions.Desired, last.Acknowledged))
	if d.Rejected = last.Rejected; d.Rejected == nil {
		d.Rejected = []insight.Rejected{}
	}
	d.Problems = r.problems(n)
	d.InStep = connected && n.Trouble == nil && !account.Waiting && len(d.Rejected) == 0
	return d
}

// maxProblems is how many problems of a node are shown.
const maxProblems = 5

func (r *Registry) problems(n insight.Node) []string {
	if r.Options.Problems == nil {
		return nil
	}
	all := r.Options.Problems(n)
	if more := len(all) - maxProblems; more > 0 {
		all = append(slices.Clone(all[:maxProblems]), fmt.Sprintf("and %d more", more))
	}
	return all
}

// reason says why a node is away.
func reason(n insight.Node) string {
	switch {
	case n.State == insight.Connected:
		return ""
	case n.State == insight.Refused:
		return n.Refusal.Reason
	case n.Since.IsZero():
		return reasonNever
	case n.Ended != "":
		return n.Ended
	}
	return reasonLeft
}

// orphan shows a node of which only filters are remembered. While one is linked, the node is
// connected, and in step with all that it is sent: revocations.
func (r *Registry) orphan(id string, f Filters) Node {
	d := r.document(split(id, f), f)
	d.Reason = reasonFilters
	if f.Linked > 0 {
		d.Reason, d.InStep = reasonLinked, true
	}
	return d
}

// split is a node of which nothing is known but its id and its filters.
func split(id string, f Filters) insight.Node {
	n := insight.Node{ID: id, Type: insight.Sidecar, State: insight.Away}
	if f.Linked > 0 {
		n.State = insight.Connected
	}
	if proxyType, name, zonal := mesh.ParseZoneNode(id); zonal { // the name may have dots
		n.Type, n.Scope, n.Name = proxyType, mesh.ZoneNodeScope(proxyType), name
		return n
	}
	scope, name, ok := strings.Cut(id, ".")
	if rest, gateway := strings.CutPrefix(id, "cp/"); gateway {
		n.Type = insight.Gateway
		scope, name, ok = strings.Cut(rest, "/")
	}
	if ok {
		n.Scope, n.Name = scope, name
	}
	return n
}

// ScopeOf returns the mesh or the control plane to which a node belongs by its id. Both are empty
// for a proxy of a zone, which belongs to none, and for an id that no node has.
func ScopeOf(id string) (meshName, controlPlane string) {
	switch n := split(id, Filters{}); n.Type {
	case insight.Gateway:
		return "", n.Scope
	case insight.Sidecar:
		return n.Scope, ""
	}
	return "", ""
}

// TypeOf returns the type of a node by its id.
func TypeOf(id string) string { return split(id, Filters{}).Type }

func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}
