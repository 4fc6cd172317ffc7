package explain

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"

	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/inspect/interpret"
)

// follow follows the request to every endpoint that may get it.
func (w *walk) follow(out *Explanation, p *interpret.Passage, to netip.AddrPort) {
	for i := range p.Shares {
		s := &p.Shares[i]
		part := 100 * float64(s.Weight) / float64(s.Total)
		if s.Reply != nil {
			steps := w.leading(s.Steps)
			out.Endpoints = append(out.Endpoints, Endpoint{Cluster: s.Cluster, Share: part, Steps: steps, Outcome: refused(s.Reply, steps)})
			continue
		}
		out.Steps = append(out.Steps, w.leading(s.Steps)...)
		for _, end := range s.Ends {
			if w.ctx.Err() != nil {
				return
			}
			if len(out.Endpoints) >= MaxEndpoints {
				out.LeftOut++
				continue
			}
			if end.Original {
				end.Address, end.Port = to.Addr().String(), uint32(to.Port())
			}
			e := Endpoint{Address: net.JoinHostPort(end.Address, strconv.FormatUint(uint64(end.Port), 10)), Cluster: s.Cluster, Steps: []Step{}}
			if end.Original && !to.IsValid() {
				e.Address = w.q.Destination
			}
			if end.Total > 0 {
				e.Share = part * float64(end.Weight) / float64(end.Total)
			}
			w.reach(&e, end, p)
			out.Endpoints = append(out.Endpoints, e)
		}
	}
}

// reach says what becomes of the request at one endpoint.
func (w *walk) reach(e *Endpoint, end interpret.End, p *interpret.Passage) {
	d, at := w.serving(end)
	if d == nil && w.isEgress(end) {
		e.Steps = []Step{{Proxy: w.source.ID, Step: interpret.StepEndpoint, Name: e.Address, Text: "the request goes on to the egress of the zone at " + e.Address}}
		e.Outcome = cannotSay("the egress at " + e.Address + " judges the request anew, or passes it on to another zone, and is not followed")
		return
	}
	if d == nil {
		e.Outcome = Outcome{Verdict: Allowed, Text: "the request leaves the mesh for " + e.Address + ", which answers as it likes"}
		return
	}
	e.Dataplane = d.ID
	proxy := w.proxy(d)
	if proxy == nil {
		e.Outcome = cannotSay("the proxy of " + d.ID + " has not connected to this control plane, or refuses what it was sent last, so nobody knows what it has")
		return
	}
	l, err := proxy.Find(w.ctx, at)
	if err == nil && l == nil {
		l, err = proxy.Redirected(w.ctx, false)
	}
	switch {
	case err != nil:
		e.Outcome = cannotSay(err.Error())
		return
	case l == nil:
		e.Steps = []Step{{Proxy: d.ID, Step: interpret.StepListener, Text: "the proxy does not listen there", Refused: true}}
		e.Outcome = w.broken(p, e.Steps)
		return
	}
	c := interpret.Connection{To: at, TLS: end.Secured, Protocols: end.Protocols}
	if end.Secured && end.Identity {
		c.Peer = w.certificate(w.source)
	}
	w.arrive(e, end, c, p, proxy, l, d)
}

// arrive says what the proxy of an endpoint does.
func (w *walk) arrive(e *Endpoint, end interpret.End, c interpret.Connection, p *interpret.Passage, proxy *interpret.Proxy, l *interpret.Listener, d *view.Dataplane) {
	if end.Secured && !interpret.Fulfilled(end.Demands, proxy.Certificate) {
		e.Steps = []Step{{Proxy: w.source.ID, Step: interpret.StepConnection, Text: "the certificate of the endpoint is for another service", Refused: true}}
		e.Outcome = w.broken(p, e.Steps)
		return
	}
	r := p.Request
	if r == nil {
		r = w.q.request(w.hostOf(), "http")
	}
	arrived, err := proxy.Arrive(l, c, r)
	if err != nil {
		e.Outcome = cannotSay(err.Error())
		return
	}
	e.Steps = w.atDestination(arrived, d, l)
	if arrived.Opaque && !p.Opaque && arrived.Reply == nil {
		e.Outcome = cannotSay("the proxies disagree about the protocol")
		return
	}
	if arrived.Reply != nil {
		if e.Outcome = refused(arrived.Reply, e.Steps); arrived.Reply.Status == 0 {
			e.Outcome = w.broken(p, e.Steps)
		}
		return
	}
	workload := ""
	for _, s := range arrived.Shares {
		for _, own := range s.Ends {
			workload = net.JoinHostPort(own.Address, strconv.FormatUint(uint64(own.Port), 10))
			if own.Original {
				workload = e.Address
			}
		}
	}
	e.Outcome = Outcome{Verdict: Allowed, Text: "the request reaches the workload at " + workload}
	e.Outcome.Text += chances(e.Steps)
}

func (w *walk) hostOf() string {
	if w.q.Host != "" {
		return w.q.Host
	}
	return w.q.Destination
}

// broken is the outcome of a connection between proxies that fails. Where the source's proxy
// speaks HTTP, the workload sees 503.
func (w *walk) broken(p *interpret.Passage, steps []Step) Outcome {
	reply := &interpret.Reply{Text: "the connection to the endpoint fails"}
	if !p.Opaque {
		reply.Status = 503
	}
	out := refused(reply, steps)
	return out
}

// serving returns the dataplane of an endpoint, and where its proxy listens; nil if the endpoint
// is not of the mesh.
func (w *walk) serving(end interpret.End) (*view.Dataplane, netip.AddrPort) {
	e := w.endpoint(end)
	if e == nil {
		return nil, netip.AddrPort{}
	}
	d, ok := w.mesh.Dataplane(e.Dataplane)
	if !ok || d.Spec.Networking == nil {
		return nil, netip.AddrPort{}
	}
	at, err := addrPort(end.Address, end.Port)
	if n := d.Spec.Networking; err != nil || n.AdvertisedAddress != "" {
		if at, err = addrPort(n.Address, end.Port); err != nil {
			at = netip.AddrPortFrom(netip.IPv4Unspecified(), uint16(end.Port)) //nolint:gosec // ports were validated
		}
	}
	return d, at
}

// isEgress reports whether an egress of the zone is at an endpoint of a mesh that is left through
// egresses.
func (w *walk) isEgress(end interpret.End) bool {
	at, err := addrPort(end.Address, end.Port)
	return err == nil && w.mesh.ThroughEgress() && slices.Contains(w.mesh.Egresses(), at)
}

// endpoint returns the endpoint of a dataplane at an address, nil if there is none. All of them
// are gone through once for an explanation, and not for each address that it follows.
func (w *walk) endpoint(end interpret.End) *view.Endpoint {
	at := func(address string, port uint32) string {
		return net.JoinHostPort(address, strconv.FormatUint(uint64(port), 10))
	}
	if w.ends == nil {
		w.ends = map[string]*view.Endpoint{}
		for s := range w.mesh.Services() {
			if w.ctx.Err() != nil {
				return nil
			}
			for i := range s.Endpoints {
				e := &s.Endpoints[i]
				key := at(e.Address, e.Port)
				if d, ok := w.mesh.Dataplane(e.Dataplane); ok && d.Spec.Networking != nil && w.ends[key] == nil {
					w.ends[key] = e
				}
			}
		}
	}
	return w.ends[at(end.Address, end.Port)]
}

// chances says what may become of requests in spite of the verdict.
func chances(steps []Step) (text string) {
	for _, s := range steps {
		if s.Chance != nil {
			text += fmt.Sprintf("; but %s", s.Text)
		}
	}
	return text
}
