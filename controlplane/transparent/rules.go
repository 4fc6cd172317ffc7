package transparent

import (
	"net/netip"
	"slices"

	"github.com/google/nftables/expr"
)

// Table is the name of the table of nf_tables that everything is in.
const Table = "meshgate"

// Chain is a list of rules, of which the first one that applies decides. A connection that none
// applies to is left alone.
type Chain struct {
	Name  string
	Hook  Hook
	Rules []Rule
}

// Hook is where in the kernel a chain is asked.
type Hook string

// These are the hooks of connections that begin on this machine, and of those that arrive.
const (
	Output     Hook = "output"
	Prerouting Hook = "prerouting"
)

// Rule applies to connections that meet all conditions. It refuses them, redirects them to a
// port of this machine, or leaves them alone if the port is 0.
type Rule struct {
	When   []Condition
	To     uint16
	Refuse bool
}

// Condition is something that a rule asks about a connection.
type Condition interface {
	// text is the condition as nft reads it, exprs as the kernel takes it.
	text() string
	exprs() []expr.Any
}

// family is an IP version with what the rules need to know about it.
type family struct {
	v6 bool
	// loopback is what only reaches this machine. workload is the address from which the proxy
	// connects to its workload, so that such a connection is told from one of the workload.
	loopback, workload netip.Prefix
}

var (
	v4 = family{loopback: netip.MustParsePrefix("127.0.0.0/8"), workload: netip.MustParsePrefix("127.0.0.6/32")}
	v6 = family{v6: true, loopback: netip.MustParsePrefix("::1/128"), workload: netip.MustParsePrefix("::1/128")}
)

// dnsPort is where questions for names go.
const dnsPort = 53

// Rules returns the chains of valid options.
func (o *Options) Rules() (out []Chain) {
	families := []family{v4}
	if o.IPv6 {
		families = append(families, v6)
	}
	outbound, inbound := Chain{Name: "outbound", Hook: Output}, Chain{Name: "inbound", Hook: Prerouting}
	for _, f := range families {
		if o.Outbound != 0 || o.DNS != 0 {
			outbound.Rules = append(outbound.Rules, o.outbound(f)...)
		}
		if o.Inbound != 0 {
			inbound.Rules = append(inbound.Rules, o.inbound(f)...)
		}
	}
	for _, c := range []Chain{outbound, inbound} {
		if len(c.Rules) > 0 {
			out = append(out, c)
		}
	}
	return out
}

// outbound lists the rules of connections that begin on this machine.
func (o *Options) outbound(f family) (out []Rule) {
	add := func(to uint16, when ...Condition) {
		out = append(out, Rule{When: append([]Condition{version(f.v6)}, when...), To: to})
	}
	leave := func(when ...Condition) { add(0, when...) }

	// Whoever calls the ports of the proxy themselves would have it call itself, again and again.
	out = append(out, o.refused(f, loopback{Output})...)
	leave(source(f.workload))
	if o.Inbound != 0 {
		// A workload that calls its own service may be led to itself by its proxy. That
		// connection stays on this machine, so it never arrives.
		add(o.Inbound, opener{Range{o.Proxy, o.Proxy}}, loopback{Output}, not{destination(f.loopback)}, tcp)
	}
	leave(opener{Range{o.Proxy, o.Proxy}})
	for _, r := range o.NotUsers {
		leave(opener{r})
	}
	for _, n := range o.NotTo {
		if n.Addr().Is6() == f.v6 {
			leave(destination(n))
		}
	}
	for _, r := range o.NotOutbound {
		leave(tcp, ports{tcp, r})
		if r.From <= dnsPort && dnsPort <= r.To {
			leave(udp, ports{udp, Range{dnsPort, dnsPort}})
		}
	}
	if o.DNS != 0 {
		// Before everything about loopback, where many machines have their resolver.
		for _, p := range []protocol{udp, tcp} {
			add(o.DNS, p, ports{p, Range{dnsPort, dnsPort}})
		}
	}
	if o.Outbound == 0 {
		return out
	}
	leave(loopback{Output})
	leave(destination(f.loopback))
	add(o.Outbound, tcp)
	return out
}

// refused lists the rules that refuse connections to the ports of the proxy that meet some
// conditions.
func (o *Options) refused(f family, when ...Condition) (out []Rule) {
	for _, port := range []uint16{o.Outbound, o.Inbound} {
		if port != 0 {
			at := ports{tcp, Range{uint32(port), uint32(port)}}
			out = append(out, Rule{When: slices.Concat([]Condition{version(f.v6)}, when, []Condition{tcp, at}), Refuse: true})
		}
	}
	return out
}

// inbound lists the rules of connections that arrive.
func (o *Options) inbound(f family) (out []Rule) {
	add := func(to uint16, when ...Condition) {
		out = append(out, Rule{When: slices.Concat([]Condition{version(f.v6)}, when), To: to})
	}
	add(0, loopback{Prerouting})
	add(0, notHere{}) // what the machine forwards to others
	out = append(out, o.refused(f)...)
	for _, r := range o.NotInbound {
		add(0, tcp, ports{tcp, r})
	}
	add(o.Inbound, tcp)
	return out
}
