package mesh

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// Probes are virtual probe endpoints: paths at a port of the proxy that lead to paths of the
// workload. Whoever checks the workload needs no certificate, no permission and no token there.
type Probes struct {
	Port      uint32          `json:"port,omitempty"`
	Endpoints []ProbeEndpoint `json:"endpoints,omitempty"`
}

// ProbeEndpoint maps one probe. InboundPort is the port at which the workload of an inbound
// listens, or the port of an inbound.
type ProbeEndpoint struct {
	InboundPort uint32 `json:"inboundPort,omitempty"`
	InboundPath string `json:"inboundPath,omitempty"`
	Path        string `json:"path,omitempty"`
}

// MaxProbes is how many endpoints the probes of a dataplane have.
const MaxProbes = 256

// maxProbePath is how many bytes a path of a probe has.
const maxProbePath = 1024

// Probed returns the inbound that a port of a probe means, or -1. That of a workload comes first:
// a checker knows the workload, and not its proxy.
func Probed(inbounds []*Inbound, port uint32) int {
	if i := slices.IndexFunc(inbounds, func(in *Inbound) bool { return orPort(in.ServicePort, in.Port) == port }); i >= 0 {
		return i
	}
	return slices.IndexFunc(inbounds, func(in *Inbound) bool { return in.Port == port })
}

// probes refuses probes that could not be answered, and a port that something else of the proxy
// has.
func (vs *violations) probes(d *Dataplane) {
	p, n := d.Probes, d.Networking
	if p == nil {
		return
	}
	const at = "probes.port"
	vs.port(at, p.Port)
	for what, taken := range p.conflicts(d) {
		if taken {
			vs.add(at, "must differ from "+what)
		}
	}
	if len(p.Endpoints) > MaxProbes {
		vs.add("probes.endpoints", fmt.Sprintf("must have at most %d elements", MaxProbes))
		return
	}
	first := map[string]int{}
	inbounds := make([]*Inbound, len(n.Inbound))
	for i := range n.Inbound {
		inbounds[i] = &n.Inbound[i]
	}
	for i, e := range p.Endpoints {
		at := indexed("probes.endpoints", i)
		vs.port(at+".inboundPort", e.InboundPort)
		if e.InboundPort >= 1 && e.InboundPort <= 65535 && Probed(inbounds, e.InboundPort) < 0 {
			vs.add(at+".inboundPort", "no inbound has this port")
		}
		if !isURLPath(e.InboundPath) {
			vs.add(at+".inboundPath", textProbe)
		}
		if !isURLPath(e.Path) {
			vs.add(at+".path", textProbe)
		} else if j, is := first[e.Path]; is {
			vs.add(at+".path", indexed("probes.endpoints", j)+" has the same path")
		} else {
			first[e.Path] = i
		}
	}
}

// conflicts yields what of a proxy may listen where probes are answered, and whether it does.
func (p *Probes) conflicts(d *Dataplane) func(yield func(string, bool) bool) {
	n := d.Networking
	here := func(address string, port uint32) bool { return port == p.Port && overlap(address, n.Address) }
	inbound := slices.ContainsFunc(n.Inbound, func(in Inbound) bool {
		home := loopback
		if tp := n.TransparentProxying; tp != nil && tp.RedirectPortOutbound != 0 {
			home = n.Address
		}
		return here(or(in.Address, n.Address), in.Port) || here(or(in.ServiceAddress, home), orPort(in.ServicePort, in.Port))
	})
	outbound := slices.ContainsFunc(n.Outbound, func(o Outbound) bool { return here(or(o.Address, loopback), o.Port) })
	return func(yield func(string, bool) bool) {
		_ = yield("inbound", inbound) &&
			yield("outbound", outbound) &&
			yield("networking.admin.port", n.Admin != nil && n.Admin.Port == p.Port) &&
			yield("metrics.conf.port", d.Metrics != nil && d.Metrics.Conf["port"] == float64(p.Port)) &&
			yield("networking.transparentProxying.redirectPortInbound", n.TransparentProxying != nil && n.TransparentProxying.RedirectPortInbound == p.Port) &&
			yield("networking.transparentProxying.redirectPortOutbound", n.TransparentProxying != nil && n.TransparentProxying.RedirectPortOutbound == p.Port)
	}
}

// isURLPath reports whether s is the path of a URL, without query and fragment.
func isURLPath(s string) bool {
	plain := func(c rune) bool { return c > ' ' && c < 0x7f && c != '?' && c != '#' }
	if !strings.HasPrefix(s, "/") || len(s) > maxProbePath || strings.ContainsFunc(s, func(c rune) bool { return !plain(c) }) {
		return false
	}
	_, err := url.ParseRequestURI(s)
	return err == nil
}
