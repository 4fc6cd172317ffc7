package explain

import (
	"slices"
	"strconv"
	"strings"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/inspect/interpret"
	"github.com/meshgate/meshgate/xds/draft"
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/policy/faultinjection"
	"github.com/meshgate/meshgate/xds/policy/meshtokenauth"
	"github.com/meshgate/meshgate/xds/policy/ratelimit"
	"github.com/meshgate/meshgate/xds/policy/retry"
	"github.com/meshgate/meshgate/xds/selection"
)

// atSource shows the steps of the source's proxy.
func (w *walk) atSource(p *interpret.Passage) (out []Step) {
	for _, s := range p.Steps {
		step := shown(w.source.ID, s)
		switch s.Kind {
		case interpret.StepListener:
			step.Decided = []Resource{w.dataplane(w.source)}
		case interpret.StepRoute, interpret.StepSplit, interpret.StepCluster:
			step.Decided = w.routing()
		case interpret.StepToken:
			step.Decided = w.atEntrance()
		}
		if s.Refused && s.Kind == interpret.StepRoute && step.Decided == nil {
			step.Decided = w.atEntrance()
		}
		out = append(out, step)
	}
	if r := p.Retry; r != nil && r.Limit > 0 {
		step := Step{Proxy: w.source.ID, Step: stepRetry, Text: "after " + strings.ReplaceAll(r.On, ",", ", ") +
			" the request is sent again, at most " + strconv.FormatUint(uint64(r.Limit), 10) + " times"}
		step.Decided = w.tuning(retry.Kind)
		out = append(out, step)
	}
	return out
}

// stepRetry is a step that says when a proxy sends a request again.
const stepRetry = "retry"

// leading shows the steps that lead to one cluster.
func (w *walk) leading(steps []interpret.Step) []Step {
	out := []Step{}
	for _, s := range steps {
		step := shown(w.source.ID, s)
		step.Decided = w.routing()
		out = append(out, step)
	}
	return out
}

// atDestination shows the steps of the proxy of an endpoint.
func (w *walk) atDestination(p *interpret.Passage, d *view.Dataplane, l *interpret.Listener) []Step {
	out := []Step{}
	at := w.inbound(d, l)
	for _, s := range p.Steps {
		step := shown(d.ID, s)
		switch s.Kind {
		case interpret.StepListener:
			step.Decided = []Resource{w.dataplane(d)}
		case interpret.StepConnection:
			step.Decided = []Resource{{Type: mesh.Meshes.Document.Type, Name: w.mesh.Name()}}
			if s.Refused {
				step.Decided = append(w.permission(at), step.Decided...)
			}
		case interpret.StepPermission:
			if step.Decided = w.permission(at); len(step.Decided) == 0 {
				step.Text += ": no permission is chosen for this inbound"
			}
		case interpret.StepFault:
			step.Decided = w.fault(at, s.Name)
		case interpret.StepLimit:
			step.Decided = w.limit(at)
		case interpret.StepToken:
			step.Decided = w.ruling(at, meshtokenauth.Kind)
		case interpret.StepRoute:
			if s.Refused {
				step.Decided = w.ruling(at, meshtokenauth.Kind)
			}
		}
		out = append(out, step)
	}
	return out
}

// shown is a step in the form of the API.
func shown(proxy string, s interpret.Step) Step {
	out := Step{Proxy: proxy, Step: s.Kind, Name: s.Name, Text: s.Text, Refused: s.Refused}
	if c := s.Chance; c != nil {
		out.Chance = &Chance{Status: c.Status, Requests: c.Requests}
		out.key = proxy + " " + c.Key
		if c.Percent > 0 {
			out.Chance.Percentage = &c.Percent
		}
		if c.Delay > 0 {
			out.Chance.Delay = c.Delay.String()
		}
		if c.Interval > 0 {
			out.Chance.Interval = c.Interval.String()
		}
	}
	return out
}

// inbounds returns the inbounds of a dataplane with what was chosen for them. What was chosen for
// its outbounds would take far longer to say, and nobody asks.
func (w *walk) inbounds(d *view.Dataplane) []selection.Place {
	places, ok := w.places[d.ID]
	if !ok {
		places = selection.OfInbounds(w.mesh, w.all.Policies.Policies, d)
		w.places[d.ID] = places
	}
	return places
}

// ofSource returns all places of the source with what was chosen for them.
func (w *walk) ofSource() []selection.Place {
	if w.outward == nil && w.ctx.Err() == nil {
		w.outward = selection.Of(w.mesh, w.all.Policies.Policies, w.source)
	}
	return w.outward
}

// inbound returns the place of the inbound that has a listener, nil if it has none.
func (w *walk) inbound(d *view.Dataplane, l *interpret.Listener) *selection.Place {
	places := w.inbounds(d)
	for i := range places {
		p := &places[i]
		if _, port, _ := split(p.Socket); p.Sort == selection.PlaceInbound &&
			("inbound:"+p.Socket == l.Name || strings.HasSuffix(l.Name, "0.0.0.0:"+strconv.FormatUint(uint64(port), 10))) {
			return p
		}
	}
	return nil
}

// routing names the policy by which the source's outbound is routed.
func (w *walk) routing() []Resource {
	return w.matching(func(p *selection.Place, m selection.Match) bool {
		return p.Sort == selection.PlaceOutbound && m.Policy.Split != nil
	})
}

// tuning names the policy of a kind for the source's outbound, or for its service.
func (w *walk) tuning(k *model.Kind) []Resource {
	return w.matching(func(_ *selection.Place, m selection.Match) bool { return m.Policy.Kind == k })
}

// matching names what was chosen at the outbound of the source and for its service.
func (w *walk) matching(is func(*selection.Place, selection.Match) bool) []Resource {
	if w.outbound == nil {
		return nil
	}
	places := w.ofSource()
	for i := range places {
		p := &places[i]
		if p.Sort == selection.PlaceOutbound && p.Name != w.outbound.Name() || p.Sort == selection.PlaceService && p.Service != w.outbound.Tags.Service() ||
			p.Sort == selection.PlaceInbound {
			continue
		}
		for _, m := range p.Matches {
			if is(p, m) {
				return w.named(m.Policy.Kind, m.Chosen.Policies[:1])
			}
		}
	}
	return nil
}

func (w *walk) named(k *model.Kind, chosen []*view.Policy) (out []Resource) {
	for _, c := range chosen {
		out = append(out, Resource{Type: k.Document.Type, Mesh: w.mesh.Name(), Name: c.Name})
	}
	return out
}

// permission names the policy that permits or refuses the caller at an inbound.
func (w *walk) permission(at *selection.Place) []Resource {
	if at == nil {
		return nil
	}
	for _, m := range at.Matches {
		if m.Policy.Closed == nil {
			continue
		}
		if m.Policy.Rules != nil {
			return w.ruling(at, m.Policy.Kind)
		}
		return w.named(m.Policy.Kind, m.Chosen.Policies[:1])
	}
	return nil
}

// ruling names the policies of a kind whose rules are about the caller, the strongest first. For
// a caller with several sets of tags it names all that were chosen.
func (w *walk) ruling(at *selection.Place, k *model.Kind) []Resource {
	if at == nil {
		return nil
	}
	for _, m := range at.Matches {
		if m.Policy.Kind != k {
			continue
		}
		sets := selection.Sources(w.source.Spec.Networking)
		if len(sets) != 1 {
			return w.named(k, m.Chosen.Policies)
		}
		for _, r := range m.Policy.Rules(m.Chosen, policy.Site{Side: policy.Callers, Service: at.Service}) {
			if isOf(r.Subset, sets[0]) {
				var out []Resource
				for _, name := range r.Origins {
					out = append(out, Resource{Type: k.Document.Type, Mesh: w.mesh.Name(), Name: name})
				}
				return out
			}
		}
		return w.named(k, m.Chosen.Policies)
	}
	return nil
}

// isOf reports whether somebody with some tags is in a subset ([policy.Rule]).
func isOf(subset map[string]string, tags mesh.Tags) bool {
	for key, want := range subset {
		value, there := tags[key]
		if without, not := strings.CutPrefix(want, "!"); not {
			if there && slices.Contains(strings.Split(without, ",!"), value) {
				return false
			}
			continue
		}
		if !there || want != mesh.AnyValue && want != value {
			return false
		}
	}
	return true
}

// chosen returns the policies of a kind at a place.
func chosen(at *selection.Place, k *model.Kind) []*view.Policy {
	if at == nil {
		return nil
	}
	for _, m := range at.Matches {
		if m.Policy.Kind == k {
			return m.Chosen.Policies
		}
	}
	return nil
}

func selectors(p *view.Policy) (out []mesh.Selector) {
	for _, tags := range p.Sources {
		out = append(out, mesh.Selector{Match: tags})
	}
	return out
}

// fault names the policy whose fault a filter injects. The filters of an inbound are those of
// all policies in their order, one for each group of callers.
func (w *walk) fault(at *selection.Place, filter string) []Resource {
	n, _ := strconv.Atoi(strings.TrimPrefix(filter, "envoy.filters.http.fault."))
	for _, p := range chosen(at, faultinjection.Kind) {
		groups := len(draft.FromSources(selectors(p)))
		if n < groups {
			return w.named(faultinjection.Kind, []*view.Policy{p})
		}
		n -= groups
	}
	return nil
}

// limit names the policy that limits the caller: the one with the most specific source that is
// about it.
func (w *walk) limit(at *selection.Place) []Resource {
	var best *view.Policy
	var rank mesh.Rank
	sets := selection.Sources(w.source.Spec.Networking)
	for _, p := range chosen(at, ratelimit.Kind) {
		for _, source := range p.Sources {
			about := slices.ContainsFunc(sets, func(tags mesh.Tags) bool { return mesh.Matches(source, tags) })
			if r := mesh.RankOf(source); about && (best == nil || r.Compare(rank) > 0) {
				best, rank = p, r
			}
		}
	}
	if best == nil {
		return nil
	}
	return w.named(ratelimit.Kind, []*view.Policy{best})
}
