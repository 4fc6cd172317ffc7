package sidecar

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/accesslog"
	"github.com/meshgate/meshgate/xds/plan"
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/resource"
)

// Exits plans what the egresses of a zone do for the services outside one mesh. An egress is to
// such a service what a sidecar is to its workload: it ends the mutual TLS of the mesh, and the
// policies for inbounds hold there. What a service itself demands of connections is as it is at
// callers that call it themselves. One goroutine uses it.
type Exits struct {
	planner *Planner
	// kind is the place of the services among the kinds of destinations.
	kind int
}

// Exit is what a service outside contributes to every egress. What cannot be made is missing, or
// refuses every connection: nothing earlier is kept.
type Exit struct {
	Clusters, Routes []*resource.Resource
	Chains           []*listenerv3.FilterChain
	// Confided are the names of the secrets that are presented to the service.
	Confided []string
	Failures []plan.Failure
	// Bytes is the size of all of it, Made also that of what was made and had no room, and Left counts
	// the sets of tags that have none.
	Bytes, Made, Left int
}

// maxLeaving is how many connections, and how many requests, an egress has to the endpoints of one
// set of tags at most.
const maxLeaving = 8192

// NewExits returns exits of a mesh in a state. Of the policies those count that are in force at
// egresses.
func NewExits(policies []*policy.Policy, state *view.Mesh) *Exits {
	e := &Exits{planner: New(slices.DeleteFunc(slices.Clone(policies), func(p *policy.Policy) bool { return !p.Egress }), nil, accesslog.Settings{}, state)}
	e.kind = slices.Index(e.planner.kinds, DestinationKind(externalServices{}))
	e.Update(state)
	return e
}

// Update takes a newer state. After it, all services that are still there are asked for, by
// [Exits.Service], and then come [Exits.Swept] and the like.
func (e *Exits) Update(state *view.Mesh) {
	p := e.planner
	p.round++
	p.Update(state, nil, true)
	// Callers of a permissive mesh, too, prove to an egress who they are.
	p.facts.security = strict
}

// Swept forgets what no service of the last round is made of.
func (e *Exits) Swept() {
	if slices.ContainsFunc(e.planner.cells.all, sweeper.crowded) {
		for _, m := range e.planner.cells.all {
			m.sweep(e.planner.round)
		}
	}
}

// Roots returns the secret with what the mesh trusts, nil if there is nothing: no connection could
// be accepted.
func (e *Exits) Roots() *resource.Resource {
	return e.planner.ca.Get(mesh.SecretCA(e.planner.facts.mesh))
}

// Generation returns the generation of the identity of egresses in the mesh.
func (e *Exits) Generation() string {
	issuer := ""
	if t := e.planner.state.Trust(); t != nil {
		issuer = t.Spec.Issuer
	}
	return Generation(issuer, nil)
}

// Service makes what a service contributes of which callers may choose endpoints by some sets of
// tags. Each set selects an endpoint. From the one on that makes it larger than so many bytes, they
// are left out; the first never is. One that would be too large if it were like those before it is
// not made at all.
func (e *Exits) Service(l *view.Located, sets []mesh.Tags, room int) *Exit {
	out := &Exit{}
	for i, tags := range sets {
		if i > 0 && out.Bytes+out.Bytes/i > room {
			out.Left = len(sets) - i
			break
		}
		x := &Exit{}
		if err := guard(func() { e.add(x, l, tags) }); err != nil {
			x.Failures = append(x.Failures, plan.Failure{Cell: "service " + tags.String(), Err: err})
		}
		x.measure()
		out.Made += x.Bytes
		if i > 0 && out.Bytes+x.Bytes > room {
			out.Left = len(sets) - i
			break
		}
		out.take(x)
	}
	out.Failures = once(out.Failures)
	return out
}

func (x *Exit) measure() {
	for _, r := range slices.Concat(x.Clusters, x.Routes) {
		x.Bytes += len(r.Body)
	}
	for _, c := range x.Chains {
		x.Bytes += proto.Size(c)
	}
}

func (x *Exit) take(o *Exit) {
	x.Clusters, x.Routes, x.Chains = append(x.Clusters, o.Clusters...), append(x.Routes, o.Routes...), append(x.Chains, o.Chains...)
	x.Confided, x.Failures, x.Bytes = append(x.Confided, o.Confided...), append(x.Failures, o.Failures...), x.Bytes+o.Bytes
}

func (e *Exits) add(out *Exit, l *view.Located, tags mesh.Tags) {
	p := e.planner
	common, err := e.common(l, tags)
	at := p.facts.mesh + ":" + ClusterName(tags)
	transport := externalServices{}.Transport(Around{p}, tags, l)
	k := clusterKey{
		mesh: p.facts.mesh, name: at + externalServices{}.Mark(transport), tags: tags.String(), protocol: common.Protocol(), kind: e.kind, transport: transport, leaving: true,
		selections: p.only(p.blank(atPiece), editsClusters),
	}
	k.inline = assignmentKey{name: k.name, tags: k.tags, destination: l}
	in := &inbound{shape: &inboundShape{Tags: common, Cluster: k.name, Table: inboundPrefix + at, Asked: asked(tags, l), Leaving: true}}
	if err != nil {
		in.close(err)
	} else {
		p.buildInbound(&class{shape: shape{Bare: true}}, in)
	}
	c, err := of(p.cells.clusters, p.round, k, p.cluster)
	if err != nil {
		out.Failures = append(out.Failures, plan.Failure{Cell: k.name, Err: fmt.Errorf("build %s: %w", k.name, err)})
	} else {
		out.Clusters = append(out.Clusters, c)
		out.Confided = append(out.Confided, externalServices{}.Confides(transport)...)
	}
	out.Failures = append(out.Failures, in.part.failures...)
	if in.chains == nil {
		return // a failure says why
	}
	out.Routes = append(out.Routes, in.part.routes...)
	chain := proto.CloneOf(in.chains.listener.GetFilterChains()[0])
	chain.Name = ClusterName(tags) + "_" + p.facts.mesh
	chain.FilterChainMatch = &listenerv3.FilterChainMatch{TransportProtocol: "tls", ServerNames: []string{SNI(p.facts.mesh, tags)}, ApplicationProtocols: []string{mesh.ALPN}}
	out.Chains = append(out.Chains, chain)
}

// common returns the tags that all endpoints have that some tags select, by which policies are
// chosen. It fails if permissions say something else of some of them: they share a cluster, so who
// may call one could call all.
func (e *Exits) common(l *view.Located, tags mesh.Tags) (common mesh.Tags, err error) {
	var all []mesh.Tags
	var spoken []string
	for _, m := range l.Members() {
		if mesh.Matches(tags, m.Tags) {
			all, spoken = append(all, m.Tags), append(spoken, m.Tags.Protocol())
		}
	}
	common = maps.Clone(all[0])
	for _, other := range all[1:] {
		maps.DeleteFunc(common, func(k, v string) bool { return other[k] != v })
	}
	common[mesh.TagProtocol] = protocolOf(spoken)
	for _, of := range all {
		if !e.samePermissions(common, of) {
			return common, errors.New("several ExternalServices of one service have different permissions: callers have to choose among them by tags")
		}
	}
	return common, nil
}

func (e *Exits) samePermissions(a, b mesh.Tags) bool {
	chosen := func(tags mesh.Tags) map[*policy.Policy][]*view.Policy {
		return maps.Collect(e.planner.permissions(tags))
	}
	return maps.EqualFunc(chosen(a), chosen(b), slices.Equal)
}

// asked is the host for which a service is asked, empty for what callers ask.
func asked(tags mesh.Tags, d view.Destination) string {
	host, _ := externalServices{}.Lead(tags, d).(string)
	return host
}

// leavingThresholds are those of a cluster that all callers share.
func leavingThresholds() *clusterv3.CircuitBreakers {
	n := wrapperspb.UInt32(maxLeaving)
	return &clusterv3.CircuitBreakers{Thresholds: []*clusterv3.CircuitBreakers_Thresholds{{
		MaxConnections: n, MaxPendingRequests: n, MaxRequests: n,
	}}}
}
