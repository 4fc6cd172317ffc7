package sidecar

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/draft"
	"github.com/meshgate/meshgate/xds/plan"
	"github.com/meshgate/meshgate/xds/resource"
)

// crossGateways are the gateways of any mesh that proxies of all meshes may call. A caller proves
// who it is in its own mesh, and demands the identity of the gateway under the roots of the
// gateway's mesh.
type crossGateways struct{}

// Kind implements [DestinationKind].
func (crossGateways) Kind() *model.Kind { return mesh.Crossings }

// Find implements [DestinationKind]. Without mutual TLS there are none: callers could not prove who
// they are.
func (crossGateways) Find(m *view.Mesh, service string) view.Destination {
	if l := m.Located(mesh.Crossings, service); l != nil && m.IsMutual() {
		return l
	}
	return nil
}

// Inline implements [DestinationKind].
func (crossGateways) Inline(tags mesh.Tags, d view.Destination) bool { return named(tags, d) }

// Transport implements [DestinationKind].
func (crossGateways) Transport(a Around, _ mesh.Tags, _ view.Destination) Transport {
	return Transport{Mutual: true, Life: a.Life()}
}

// Keeps implements [DestinationKind].
func (crossGateways) Keeps(_ Around, was, _ Transport) bool { return was.Mutual }

// Cluster implements [DestinationKind].
func (crossGateways) Cluster(d *draft.Cluster, in ClusterInput) error {
	of, service, ok := mesh.ParseCrossService(in.Tags.Service())
	if !ok {
		return fmt.Errorf("%q is no service of another mesh", in.Tags.Service())
	}
	if err := discover(d.Proto, in); err != nil {
		return err
	}
	c := common(in.Mesh, []string{mesh.ALPN}, &matcherv3.StringMatcher{
		MatchPattern: &matcherv3.StringMatcher_Exact{Exact: mesh.SPIFFE(of, service)},
	})
	c.GetCombinedValidationContext().GetValidationContextSdsSecretConfig().Name = crossGateways{}.JudgesBy(in.Tags)
	packed, err := plan.Pack(&tlsv3.UpstreamTlsContext{Sni: SNI(of, mesh.Tags{mesh.TagService: service}), CommonTlsContext: c})
	if err != nil {
		return err
	}
	d.Proto.TransportSocket = &corev3.TransportSocket{Name: tlsSocket, ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: packed}}
	life := durationpb.New(in.Transport.Life)
	d.HTTP.CommonHttpProtocolOptions = &corev3.HttpProtocolOptions{MaxConnectionDuration: life, MaxStreamDuration: life}
	return nil
}

// JudgesBy implements [judging].
func (crossGateways) JudgesBy(tags mesh.Tags) string {
	of, _, _ := mesh.ParseCrossService(tags.Service())
	return mesh.SecretCA(of)
}

// Lead implements [DestinationKind]: gateways are asked what the caller asked.
func (crossGateways) Lead(mesh.Tags, view.Destination) any { return nil }

// Route implements [DestinationKind].
func (crossGateways) Route(*draft.Target, any) error { return nil }

// spiffeValidator is the name of Envoy's validator that judges a certificate by the roots of the
// trust domain that it names, and by no others.
const spiffeValidator = "envoy.tls.cert_validator.spiffe"

// mostCrossRoots bounds the bytes of the roots of all meshes, which gateways get in one secret.
const mostCrossRoots = 1 << 20

// crossed is what listeners for other meshes go by.
type crossed struct {
	// open says that there are roots by which callers are judged.
	open bool
	// withdrawn says how many roots each mesh has withdrawn, of those that have.
	withdrawn string
	// leftOut are the meshes whose roots are too much; nobody from there is let in.
	leftOut []string
	// full says that others do not know all listeners of the mesh.
	full bool
	// taken are the hosts of the mesh, in order, that lead to the gateways of another one elsewhere.
	taken []string
}

// same reports whether listeners for other meshes are as they would be by another one.
func (c *crossed) same(o *crossed) bool {
	return c.open == o.open && c.withdrawn == o.withdrawn && c.full == o.full && slices.Equal(c.leftOut, o.leftOut) && slices.Equal(c.taken, o.taken)
}

// crossValidation makes the secret with the roots of all meshes.
func crossValidation(all []*mesh.Crossing) (*resource.Resource, error) {
	c := &tlsv3.SPIFFECertValidatorConfig{}
	for _, x := range all {
		c.TrustDomains = append(c.TrustDomains, &tlsv3.SPIFFECertValidatorConfig_TrustDomain{
			Name: x.Mesh, TrustBundle: &corev3.DataSource{Specifier: &corev3.DataSource_InlineBytes{InlineBytes: x.Roots}},
		})
	}
	packed, err := plan.Pack(c)
	if err != nil {
		return nil, err
	}
	return plan.Freeze(resource.Secret, mesh.SecretCrossing, &tlsv3.Secret{
		Name: mesh.SecretCrossing,
		Type: &tlsv3.Secret_ValidationContext{ValidationContext: &tlsv3.CertificateValidationContext{
			CustomValidatorConfig: &corev3.TypedExtensionConfig{Name: spiffeValidator, TypedConfig: packed},
		}},
	})
}

// roots returns the secrets with the roots of other meshes: each of one whose gateways are called
// and, if others may call gateways of the own mesh, one of all.
func (p *Planner) roots() (out []*resource.Resource) {
	p.crossed = crossed{}
	if p.facts.security == plain {
		return nil
	}
	var all []*mesh.Crossing
	called := false
	for name, c := range p.state.Crossings() {
		if len(c.Roots) == 0 {
			p.crossed.leftOut = append(p.crossed.leftOut, name)
			continue
		}
		all = append(all, c)
		if name == p.facts.mesh {
			called, p.crossed.taken, p.crossed.full = len(c.Listeners) > 0, c.Taken, c.Full
		}
		if name != p.facts.mesh && len(c.Listeners) > 0 {
			if r, err := trusted(caKey{name, string(c.Roots)}); err == nil {
				out = append(out, r)
			}
		}
	}
	if !called {
		return out
	}
	// Who has the most roots is left out first, so that no mesh pushes out others.
	slices.SortFunc(all, func(a, b *mesh.Crossing) int {
		return cmp.Or(cmp.Compare(len(a.Roots), len(b.Roots)), cmp.Compare(a.Mesh, b.Mesh))
	})
	size := 0
	all = slices.DeleteFunc(all, func(c *mesh.Crossing) bool {
		if c.Mesh != p.facts.mesh && size+len(c.Roots) > mostCrossRoots {
			p.crossed.leftOut = append(p.crossed.leftOut, c.Mesh)
			return true
		}
		size += len(c.Roots)
		return false
	})
	slices.SortFunc(all, func(a, b *mesh.Crossing) int { return cmp.Compare(a.Mesh, b.Mesh) })
	slices.Sort(p.crossed.leftOut)
	r, err := crossValidation(all)
	if err != nil {
		return out
	}
	p.crossed.open = true
	for _, c := range all {
		if c.Withdrawn > 0 {
			p.crossed.withdrawn += fmt.Sprintf("%s=%d,", c.Mesh, c.Withdrawn)
		}
	}
	return append(out, r)
}

// crossing takes a changed crossing. Proxies that have no new roots by it are not touched, except
// those that reach its listeners.
func (p *Planner) crossing(before *view.Mesh, key model.Key) {
	p.trust()
	p.located(before, key)
	for _, m := range [...]*view.Mesh{before, p.state} {
		for service := range m.Locates(mesh.Crossings, key.Name) {
			p.service(service) // one that came or went has another kind
		}
	}
}

// closedAcross says why nothing can listen for other meshes; empty if something can.
func (p *Planner) closedAcross() string {
	switch {
	case p.facts.security == plain:
		return "nothing listens: a listener with crossMesh needs mutual TLS, which the mesh does not have"
	case !p.crossed.open:
		return "nothing listens yet: the roots of the meshes that may call a listener with crossMesh are not known"
	}
	return ""
}

// listensAcross notes what keeps callers of other meshes out of a port, and reports whether it can
// listen at all.
func (p *Planner) listensAcross(r *reach, on []*outbound) bool {
	name := on[0].listenerName()
	text := p.closedAcross()
	if text != "" {
		r.front.failures = append(r.front.failures, plan.Failure{Cell: name, Err: errors.New(text), Awaited: p.facts.security != plain})
		return false
	}
	if n := len(p.crossed.leftOut); n > 0 {
		r.front.failures = append(r.front.failures, plan.Failure{
			Cell: name, Err: fmt.Errorf("the roots of a mesh are more than %d bytes, or those of all more than %d: nobody from %d of them is let in, %s among them", mesh.MostCrossRoots, mostCrossRoots, n, p.crossed.leftOut[0]),
		})
	}
	if p.crossed.full {
		r.front.failures = append(r.front.failures, plan.Failure{
			Cell: name, Err: errors.New("the gateways of the mesh have more listeners, host names or addresses with crossMesh than other meshes are told of"),
		})
	}
	for _, o := range on {
		if host := o.listener.Spec.Host(); slices.Contains(p.crossed.taken, host) {
			r.front.failures = append(r.front.failures, plan.Failure{
				Cell: name, Err: fmt.Errorf("another mesh had the name %s before: proxies of other meshes call this gateway by tags alone", host),
			})
		}
	}
	return true
}

// spiffePrefix begins the identities of all meshes.
const spiffePrefix = "spiffe://"

// acrossTLS demands a certificate of any mesh under the roots of just that mesh. Other names in a
// certificate than its first count for nothing, so nothing behind it may go by them.
func acrossTLS(meshName string) (*corev3.TransportSocket, error) {
	c := common(meshName, nil, &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Prefix{Prefix: spiffePrefix}})
	c.GetCombinedValidationContext().GetValidationContextSdsSecretConfig().Name = mesh.SecretCrossing
	return demand(c)
}

// unservedText says of a service that nobody serves what is missing.
func unservedText(m *view.Mesh, service string) error {
	of, gateway, ok := mesh.ParseCrossService(service)
	switch {
	case !ok:
		return fmt.Errorf("no dataplane of the mesh serves %q", service)
	case !m.IsMutual():
		return fmt.Errorf("gateway %q of mesh %q cannot be called: this mesh has no mutual TLS", gateway, of)
	}
	return fmt.Errorf("mesh %q has no gateway %q that other meshes may call, no mutual TLS, or no roots that others are told of", of, gateway)
}
