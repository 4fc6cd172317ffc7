package explain

import (
	"cmp"
	"context"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/turns"
	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/engine"
	"github.com/meshgate/meshgate/inspect/interpret"
	"github.com/meshgate/meshgate/xds/resource"
)

// Gateways explains requests at the gateways of one control plane. All fields are required.
type Gateways struct {
	// Scope is the name of the control plane.
	Scope string
	// Nodes lists the gateways of the control plane that are known, in their order.
	Nodes func() []string
	// Last returns the set that was last published for a node, nil for a node that this control
	// plane has not planned, or that refuses a part of it.
	Last func(node string) *resource.Set
	// Planned waits until everything that is stored is published. Its error says why that is not
	// so.
	Planned func(ctx context.Context) error
	Record  Records
	// Turns limits concurrent answers.
	Turns *turns.Queue
}

// Explain returns the [Explanation] of a request of a client whose address is not trusted. An
// Invalid fault names a missing parameter, NotFound is about the gateway that was asked for.
// [turns.ErrFull] means that too many ask.
func (e *Gateways) Explain(ctx context.Context, q Question) (*Explanation, error) {
	if q.Host == "" {
		return nil, fault.Violated([]fault.Violation{{Path: ParamHost, Message: "must be given"}})
	}
	planned, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := e.Planned(planned); err != nil {
		return nil, err
	}
	if err := e.Turns.Enter(ctx); err != nil {
		return nil, err
	}
	defer e.Turns.Leave()
	out := &Explanation{Method: q.Method, Host: q.Host, Path: q.shownPath(), Steps: []Step{}, Endpoints: []Endpoint{}}
	set, err := e.chosen(out, q)
	switch {
	case err != nil:
		return nil, err
	case set == nil:
		out.Outcome = cannotSay("no gateway has connected to this control plane, or each refuses what it was sent last, so nobody knows what they have")
		return out, nil
	}
	e.follow(ctx, out, set, q)
	return out, nil
}

// chosen finds the gateway to follow: the one that was asked for, else the first one with a set.
func (e *Gateways) chosen(out *Explanation, q Question) (*resource.Set, error) {
	known := e.Nodes()
	if q.Gateway != "" && !slices.Contains(known, q.Gateway) {
		return nil, fault.New(fault.NotFound, "gateway %s does not exist", q.Gateway)
	}
	for _, node := range known {
		if q.Gateway != "" && node != q.Gateway {
			continue
		}
		if set := e.Last(node); set != nil {
			out.Gateway = node
			return set, nil
		}
	}
	return nil, nil //nolint:nilnil // no set is an outcome
}

// follow follows a request through one gateway.
func (e *Gateways) follow(ctx context.Context, out *Explanation, set *resource.Set, q Question) {
	check := e.Record.check(ctx, e.Scope)
	proxy := &interpret.Proxy{Set: set, Check: func(hash contract.Hash, plugin string) engine.Found {
		found := check(hash, plugin)
		if found.Answer == contract.Found {
			out.Consumer = e.consumer(ctx, hash)
		}
		return found
	}}
	l, err := gatewayListener(proxy, q.Scheme)
	if err != nil {
		out.Outcome = cannotSay(err.Error())
		return
	}
	c := interpret.Connection{TLS: q.Scheme == "https"}
	if c.TLS {
		if c.ServerName = q.Host; strings.Contains(q.Host, ":") {
			if host, _, err := net.SplitHostPort(q.Host); err == nil {
				c.ServerName = host
			}
		}
	}
	passage, err := proxy.Arrive(l, c, q.request(q.Host, q.Scheme))
	if err != nil {
		out.Outcome = cannotSay(err.Error())
		return
	}
	out.decide(passage)
	out.lead(passage)
}

// gatewayListener returns the listener of a scheme.
func gatewayListener(p *interpret.Proxy, scheme string) (*interpret.Listener, error) {
	for _, r := range p.Set.All(resource.Listener) {
		if strings.HasPrefix(r.Name, "gateway:"+scheme+":") {
			return p.Named(r.Name)
		}
	}
	return nil, &interpret.Unsaid{What: "the gateway has no listener for " + scheme}
}

// consumer names whom a credential is of.
func (e *Gateways) consumer(ctx context.Context, hash contract.Hash) *Resource {
	rec, _, _, err := e.Record(ctx, e.Scope, hash)
	if err != nil || rec == nil || rec.Consumer == nil {
		return nil
	}
	return &Resource{Type: "consumers", Name: cmp.Or(rec.Consumer.Username, rec.Consumer.CustomID, rec.Consumer.ID), ID: rec.Consumer.ID}
}

// decide shows the steps of a gateway with the entities that decide.
func (e *Explanation) decide(p *interpret.Passage) {
	for _, plugin := range p.Plugins {
		e.Plugins = append(e.Plugins, Resource{Type: "plugins", Name: nameOf(&plugin), ID: plugin.ID})
	}
	for _, other := range p.Others {
		e.Others = append(e.Others, entity("routes", other[contract.MetaRoute], other[contract.MetaRouteID])...)
	}
	for _, s := range p.Steps {
		step := shown(e.Gateway, s)
		switch s.Kind {
		case interpret.StepRoute:
			step.Decided = entity("routes", p.About[contract.MetaRoute], p.About[contract.MetaRouteID])
		case interpret.StepToken:
			step.Decided = e.Plugins
		case interpret.StepCluster, interpret.StepEndpoint:
			step.Decided = entity("services", p.About[contract.MetaService], p.About[contract.MetaServiceID])
		}
		e.Steps = append(e.Steps, step)
	}
}

// nameOf returns the name of a plugin.
func nameOf(p *contract.Plugin) string {
	switch {
	case p.OAuth2 != nil:
		return "oauth2"
	case p.KeyAuth != nil:
		return "key-auth"
	}
	return "request-termination"
}

func entity(kind, name, id string) []Resource {
	if id == "" {
		return nil
	}
	return []Resource{{Type: kind, Name: name, ID: id}}
}

// lead shows where a gateway sends the request, and what becomes of it.
func (e *Explanation) lead(p *interpret.Passage) {
	if p.Issued {
		e.Outcome = Outcome{Verdict: Allowed, Text: "the OAuth server of the control plane answers"}
		return
	}
	if p.Reply != nil {
		e.Outcome = refused(p.Reply, e.Steps)
		return
	}
	service := entity("services", p.About[contract.MetaService], p.About[contract.MetaServiceID])
	for i := range p.Shares {
		s := &p.Shares[i]
		for _, step := range s.Steps {
			step := shown(e.Gateway, step)
			step.Decided = service
			e.Steps = append(e.Steps, step)
		}
		for _, end := range s.Ends {
			if len(e.Endpoints) >= MaxEndpoints {
				e.LeftOut++
				continue
			}
			x := Endpoint{Address: net.JoinHostPort(end.Address, strconv.FormatUint(uint64(end.Port), 10)), Cluster: s.Cluster, Steps: []Step{}}
			if end.Total > 0 {
				x.Share = 100 * float64(s.Weight) / float64(s.Total) * float64(end.Weight) / float64(end.Total)
			}
			x.Outcome = Outcome{Verdict: Allowed, Text: "the request is sent to " + x.Address}
			e.Endpoints = append(e.Endpoints, x)
		}
	}
	e.Outcome = together(e)
}
