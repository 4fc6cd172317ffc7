package edge

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/plan"
)

// shown lists the certificates that have server names, as text that is equal
// for equal lists: a line for each, of its id, whether it has an alternative, and
// its names.
func shown(g *view.Gateway) string {
	names := map[*view.Certificate][]string{}
	for s := range g.SNIs() {
		if c, ok := g.Of(s.Scope).Certificate(s.Spec.Certificate); ok {
			names[c] = append(names[c], s.Spec.Server())
		}
	}
	var lines []string
	for c, list := range names {
		slices.Sort(list)
		lines = append(lines, strings.Join(append([]string{c.ID, strconv.FormatBool(c.Alternative)}, list...), " "))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// allow adds the secrets of a certificate that a resource of a control plane names to those
// that a proxy may ask for. A
// certificate that was written again is another generation of its secrets.
func allow(secrets map[string]string, own view.Member, id string, alternative bool) {
	c, ok := own.Certificate(id)
	if !ok {
		return
	}
	generation := strconv.FormatUint(c.Version, 10)
	secrets[SecretCertificate(id, false)] = generation
	if alternative && c.Alternative {
		secrets[SecretCertificate(id, true)] = generation
	}
}

// chainSpec is one filter chain of a listener: who it is for and what it shows.
type chainSpec struct {
	name string
	// trusted clients speak for others.
	trusted bool
	// servers are the names that clients ask for, none for all others.
	servers []string
	// secrets are the certificates that are shown, none without TLS.
	secrets []string
}

// filterChains lists the filter chains of a listener: for each certificate one of its
// names, and one for everybody else; all twice where some clients are trusted.
// Adding one leaves the others and their connections alone.
func filterChains(e endpoint) []chainSpec {
	last := chainSpec{name: "default"}
	if e.scheme == "https" {
		last.secrets = []string{SecretServer}
	}
	all := []chainSpec{last}
	for line := range strings.Lines(e.certificates) {
		part := strings.Fields(line)
		s := chainSpec{name: "certificate:" + part[0], secrets: []string{SecretCertificate(part[0], false)}, servers: part[2:]}
		if part[1] == "true" {
			s.secrets = append(s.secrets, SecretCertificate(part[0], true))
		}
		all = append(all, s)
	}
	if e.trusted == "" {
		return all
	}
	for _, s := range slices.Clone(all) {
		s.name, s.trusted = s.name+":trusted", true
		all = append(all, s)
	}
	return all
}

// match selects the connections of a shape. A name, exact or with a wildcard,
// counts more than the address that a connection comes from.
func (s chainSpec) match(trusted string) (*listenerv3.FilterChainMatch, error) {
	if len(s.servers) == 0 && !s.trusted {
		return nil, nil //nolint:nilnil // the chain of everybody else
	}
	m := &listenerv3.FilterChainMatch{ServerNames: s.servers}
	if !s.trusted {
		return m, nil
	}
	for text := range strings.SplitSeq(trusted, ",") {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, err
		}
		m.DirectSourcePrefixRanges = append(m.DirectSourcePrefixRanges, &corev3.CidrRange{
			AddressPrefix: p.Addr().String(), PrefixLen: wrapperspb.UInt32(uint32(p.Bits())), //nolint:gosec // of a valid prefix
		})
	}
	return m, nil
}

func downstreamTLS(secrets []string) (*anypb.Any, error) {
	return plan.Pack(plan.ServerTLS(secrets, []string{"h2", "http/1.1"}))
}
