package explain

import (
	"context"
	"net"
	"net/netip"
	"strconv"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/inspect"
	"github.com/meshgate/meshgate/inspect/interpret"
	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/selection"
)

// Meshes explains requests between the proxies of meshes. All fields are required but Record.
type Meshes struct {
	// Policies choose as the planner does.
	Policies *inspect.Policies
	// Last returns the set that was last published for a node, nil for a node that this control
	// plane has not planned, or that refuses a part of it.
	Last func(node string) *resource.Set
	// Planned waits until everything that is stored is published for a mesh. Its error says why
	// that is not so.
	Planned func(ctx context.Context, mesh string) error
	// Record returns what the store knows of a token hash in the scope of a control plane.
	Record Records
}

// patience is how long an explanation waits for the plan of what was written last, and then how
// long it may take.
const patience = 10 * time.Second

// MaxEndpoints is how many endpoints an explanation follows.
const MaxEndpoints = 50

// Explain calls show with the [Explanation] of a request. An Invalid fault names the parameters
// that are missing, NotFound is about the source; an unknown destination is an outcome.
// [turns.ErrFull] means that too many ask.
func (e *Meshes) Explain(ctx context.Context, meshName string, q Question, show func(any) error) error {
	var missing []fault.Violation
	for _, p := range []struct{ param, value string }{{ParamSource, q.Source}, {ParamDestination, q.Destination}} {
		if p.value == "" {
			missing = append(missing, fault.Violation{Path: p.param, Message: "must be given"})
		}
	}
	if len(missing) > 0 {
		return fault.Violated(missing)
	}
	planned, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := e.Planned(planned, meshName); err != nil {
		return err
	}
	return e.Policies.With(ctx, meshName, func(m *view.Mesh) error {
		d, ok := m.Dataplane(q.Source)
		if !ok {
			return fault.New(fault.NotFound, "dataplane %s of mesh %s does not exist", q.Source, meshName)
		}
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		w := &walk{ctx: ctx, all: e, mesh: m, source: d, q: q, places: map[string][]selection.Place{}}
		doc := w.explain()
		if err := ctx.Err(); err != nil { // the walk has ended where it was
			return fault.Wrap(fault.Unavailable, err, "the explanation takes too long")
		}
		return show(doc)
	})
}

// walk follows one request through a mesh.
type walk struct {
	ctx    context.Context
	all    *Meshes
	mesh   *view.Mesh
	source *view.Dataplane
	q      Question
	// outbound is the outbound of the source that takes the request, nil if none does.
	outbound *selection.Outbound
	// places are the inbounds of the dataplanes that were looked at, and outward all places of
	// the source, once they were needed.
	places  map[string][]selection.Place
	outward []selection.Place
	// ends are the endpoints of the mesh by their addresses, once one was looked for.
	ends map[string]*view.Endpoint
}

// explain makes the answer.
func (w *walk) explain() *Explanation {
	host := w.q.Host
	if host == "" {
		host = w.q.Destination
	}
	out := &Explanation{
		Mesh: w.mesh.Name(), Source: w.q.Source, Destination: w.q.Destination, Method: w.q.Method, Host: host, Path: w.q.shownPath(),
		Steps: []Step{}, Endpoints: []Endpoint{},
	}
	proxy := w.proxy(w.source)
	if proxy == nil {
		out.Outcome = cannotSay("the proxy of " + w.source.ID + " has not connected to this control plane, or refuses what it was sent last, so nobody knows what it has")
		return out
	}
	l, to, ended, err := w.leave(proxy)
	switch {
	case err != nil:
		out.Outcome = cannotSay(err.Error())
		return out
	case ended != nil:
		out.Outcome = *ended
		return out
	}
	c, scheme := w.arrival(to, host)
	passage, err := proxy.Arrive(l, c, w.q.request(host, scheme))
	if err != nil {
		out.Outcome = cannotSay(err.Error())
		return out
	}
	out.Steps = w.atSource(passage)
	if passage.Reply != nil {
		out.Outcome = refused(passage.Reply, out.Steps)
		return out
	}
	w.follow(out, passage, to)
	out.Outcome = together(out)
	return out
}

// proxy is the proxy of a dataplane with what it was sent, nil if it was sent nothing.
func (w *walk) proxy(d *view.Dataplane) *interpret.Proxy {
	set := w.all.Last(mesh.NodeID(w.mesh.Name(), d.ID))
	if set == nil {
		return nil
	}
	return &interpret.Proxy{Set: set, Certificate: w.certificate(d), Check: w.all.Record.check(w.ctx, "")}
}

// certificate lists the URIs of the certificate of a dataplane, in their order; none if the mesh
// has no identities.
func (w *walk) certificate(d *view.Dataplane) []string {
	if w.mesh.Trust() == nil {
		return nil
	}
	return Names(w.mesh.Name(), d.Spec)
}

// leave finds the listener of the source that takes the request, and the address that the
// workload connects to, if it is known. Otherwise it says what becomes of the request.
func (w *walk) leave(p *interpret.Proxy) (l *interpret.Listener, to netip.AddrPort, ended *Outcome, err error) {
	n := w.source.Spec.Networking
	if n == nil {
		return nil, to, nil, &interpret.Unsaid{What: "the dataplane has no networking"}
	}
	if selection.Builtin(n) {
		return w.enter(p)
	}
	outbounds := selection.Declared(n)
	if all, reachable := selection.Everything(n); all {
		outbounds = selection.Virtual(w.mesh, reachable)
	}
	host, port, asAddress := split(w.q.Destination)
	if !asAddress {
		if w.outbound = toService(outbounds, w.q.Destination); w.outbound == nil {
			return nil, to, w.unreached(), nil
		}
		to, err = addrPort(w.outbound.Address, w.outbound.Port)
		if err == nil {
			l, err = p.Find(w.ctx, to)
		}
		if err == nil && l == nil {
			err = &interpret.Unsaid{What: "the proxy has no listener for its outbound " + w.outbound.Name()}
		}
		return l, to, nil, err
	}
	return w.leaveTo(p, outbounds, host, port)
}

// leaveTo is leave for a destination that is a host with a port.
func (w *walk) leaveTo(p *interpret.Proxy, outbounds []selection.Outbound, host string, port uint32) (*interpret.Listener, netip.AddrPort, *Outcome, error) {
	var to netip.AddrPort
	addr, err := netip.ParseAddr(host)
	if err != nil {
		addr, err = w.resolve(p, host)
	}
	if err == nil {
		to = netip.AddrPortFrom(addr, uint16(port)) //nolint:gosec // it was parsed as a port
		for i := range outbounds {
			if at, e := addrPort(outbounds[i].Address, outbounds[i].Port); e == nil && at == to {
				w.outbound = &outbounds[i]
			}
		}
		if l, err := p.Find(w.ctx, to); l != nil || err != nil {
			return l, to, nil, err
		}
	}
	l, err := p.Redirected(w.ctx, true)
	if l == nil && err == nil {
		return nil, to, &Outcome{Verdict: Unknown, Text: "the connection does not go through the proxy, which has no outbound for " + w.q.Destination}, nil
	}
	return l, to, nil, err
}

// split divides host:port.
func split(destination string) (host string, port uint32, ok bool) {
	host, text, err := net.SplitHostPort(destination)
	if err != nil {
		return "", 0, false
	}
	n, err := strconv.ParseUint(text, 10, 16)
	return host, uint32(n), err == nil && n > 0 && host != ""
}

func addrPort(address string, port uint32) (netip.AddrPort, error) {
	a, err := netip.ParseAddrPort(net.JoinHostPort(address, strconv.FormatUint(uint64(port), 10)))
	if err != nil {
		return a, &interpret.Unsaid{What: "where " + address + " is"}
	}
	return a, nil
}

// toService returns the outbound to a service: the one by the service alone, else the first one.
func toService(outbounds []selection.Outbound, service string) *selection.Outbound {
	var first *selection.Outbound
	for i := range outbounds {
		o := &outbounds[i]
		if o.Tags.Service() != service {
			continue
		}
		if len(o.Tags) == 1 {
			return o
		}
		if first == nil {
			first = o
		}
	}
	return first
}

// unreached is the outcome for a service without an outbound.
func (w *walk) unreached() *Outcome {
	text := w.source.ID + " has no outbound for the service " + w.q.Destination
	all, reachable := selection.Everything(w.source.Spec.Networking)
	switch {
	case !w.mesh.Has(w.q.Destination):
		text += ", which nobody in the mesh serves"
	case all && !selection.Reachable(reachable, w.q.Destination):
		text += ", which its reachableServices leave out"
	}
	by := &Step{Proxy: w.source.ID, Step: interpret.StepListener, Text: text, Refused: true, Decided: []Resource{w.dataplane(w.source)}}
	return &Outcome{Verdict: Refused, By: by, Text: text}
}

func (w *walk) dataplane(d *view.Dataplane) Resource {
	return Resource{Type: mesh.Dataplanes.Document.Type, Mesh: w.mesh.Name(), Name: d.ID}
}
