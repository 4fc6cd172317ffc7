package sidecar_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"pgregory.net/rapid"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/e2e/few"
	"github.com/meshgate/meshgate/xds/draft"
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/policy/all"
	"github.com/meshgate/meshgate/xds/policy/target"
	"github.com/meshgate/meshgate/xds/resource"
)

// aimed is the spec of policies with a target that exist only in tests.
type aimed struct {
	Ref  *target.Ref         `json:"ref,omitempty"`
	From []target.Item[aims] `json:"from,omitempty"`
	To   []target.Item[aims] `json:"to,omitempty"`
}

type aims struct{}

func (a *aimed) Target() *target.Ref                       { return a.Ref }
func (a *aimed) SelectedTargets() []map[string]string      { return a.Ref.Selected() }
func (a *aimed) SelectedSources() []map[string]string      { return target.Selected(a.From) }
func (a *aimed) SelectedDestinations() []map[string]string { return target.Selected(a.To) }
func aimedKind(name string) *model.Kind {
	k := sampleKind(name)
	k.New = func() any { return new(aimed) }
	return k
}

func namesOf(s *policy.Selection) string {
	var out []string
	for _, p := range s.Policies {
		out = append(out, p.Name)
	}
	return strings.Join(out, " ")
}

// prefix begins what is written down at a cluster.
const prefix = "by "

// connected is chosen for inbounds, outbounds and destinations, whole for proxies. They write
// down which policies were chosen.
var (
	connected = &policy.Policy{
		Kind: aimedKind("Connected"), Phase: policy.Settings, Order: target.Order,
		Attachment: policy.AllByInbound | policy.AllByOutbound | policy.AllByDestination,
		Edits: policy.Edits{
			InboundRoutes: func(r *draft.Routes, s *policy.Selection) error {
				r.Host.ResponseHeadersToAdd = append(r.Host.ResponseHeadersToAdd, said("x-in", namesOf(s)))
				return nil
			},
			OutboundRoutes: func(r *draft.Routes, s *policy.Selection) error {
				r.Host.ResponseHeadersToAdd = append(r.Host.ResponseHeadersToAdd, said("x-out", namesOf(s)))
				return nil
			},
			Cluster: func(c *draft.Cluster, s *policy.Selection) error {
				c.Proto.AltStatName = prefix + namesOf(s)
				return nil
			},
		},
	}
	whole = &policy.Policy{
		Kind: aimedKind("Whole"), Phase: policy.Settings, Order: target.Order, Attachment: policy.AllByProxy,
		Edits: policy.Edits{Contribute: func(c *draft.Contribution, s *policy.Selection) error {
			c.Clusters = append(c.Clusters, staticCluster(draft.Marked("whole:"+namesOf(s)), "127.0.0.7"))
			return nil
		}},
	}
)

// written returns what the policies have written down in the set of a proxy with one HTTP
// inbound and one outbound: for the inbound, the outbound, its cluster and the proxy.
func written(t *testing.T, set *resource.Set, called string) (out [4]string) {
	t.Helper()
	for r := range set.Each(resource.Route) {
		for _, h := range load(t, r, new(routev3.RouteConfiguration)).GetVirtualHosts()[0].GetResponseHeadersToAdd() {
			switch h.GetHeader().GetKey() {
			case "x-in":
				out[0] = h.GetHeader().GetValue()
			case "x-out":
				out[1] = h.GetHeader().GetValue()
			}
		}
	}
	if rest, ok := strings.CutPrefix(load(t, set.Get(resource.Cluster, called), new(clusterv3.Cluster)).GetAltStatName(), prefix); ok {
		out[2] = rest
	}
	for r := range set.Each(resource.Cluster) {
		if rest, ok := strings.CutPrefix(r.Name, draft.Marked("whole:")); ok {
			out[3] = rest
		}
	}
	return out
}

// chosenNaively returns the names of the policies that count at a place, the strongest first.
func chosenNaively(m *view.Mesh, k *model.Kind, counts func(*aimed) bool) string {
	var out []*view.Policy
	for p := range m.Policies(k) {
		if counts(p.Spec.(*aimed)) {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, target.Order)
	return namesOf(&policy.Selection{Policies: out})
}

func refersTo(r *target.Ref, tags mesh.Tags) bool {
	s, _ := r.Selector()
	return mesh.Matches(s, tags)
}

// TestAllThatMatchAreChosen changes policies with targets at random. Every place has all that
// match it, in order, whatever was there before.
func TestAllThatMatchAreChosen(t *testing.T) {
	few.UnderRace(t, 25)
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorldOf(t, append(all.Policies(), connected, whole))
		w.t = rt
		proxies := map[string]mesh.Tags{}
		for i, name := range []string{"a-1", "a-2", "b-1"} {
			service, called := name[:1], "b"
			d := dataplane(fmt.Sprintf("127.0.0.%d", i+1), service, "http", called)
			tags := d.Networking.Inbound[0].Tags
			tags["version"] = fmt.Sprintf("v%d", i)
			w.put(mesh.Dataplanes, meshName, name, d)
			proxies[name] = tags
		}
		w.settle()
		for name := range proxies {
			w.planner.Join(name)
		}
		d := &driver{world: w, rt: rt}
		ref := func() *target.Ref {
			r := d.ref()
			if r.Tags != nil {
				r.Tags = mesh.Tags{"version": pick(d, "v0", "v1", "v2")}
			}
			return r
		}
		items := func(r func() *target.Ref) (out []target.Item[aims]) {
			for range pick(d, 0, 1, 2) {
				out = append(out, target.Item[aims]{TargetRef: r(), Default: &aims{}})
			}
			return out
		}
		for range rapid.IntRange(1, 6).Draw(rt, "steps") {
			k, name := pick(d, connected.Kind, whole.Kind), pick(d, "x", "y", "z")
			if there := slices.ContainsFunc(slices.Collect(w.planner.State().Policies(k)), func(p *view.Policy) bool { return p.Name == name }); there && d.yes() {
				w.drop(k, name)
			} else {
				w.put(k, meshName, name, &aimed{Ref: ref(), From: items(ref), To: items(func() *target.Ref {
					return pick(d, &target.Ref{Kind: target.Mesh}, &target.Ref{Kind: target.Service, Name: "b"}, &target.Ref{Kind: target.Service, Name: "c"})
				})})
			}
			w.settle()
			for proxy, tags := range proxies {
				m := w.planner.State()
				here := chosenNaively(m, connected.Kind, func(a *aimed) bool {
					return refersTo(a.Ref, tags) && (len(a.From) > 0 || len(a.To) == 0)
				})
				there := chosenNaively(m, connected.Kind, func(a *aimed) bool {
					return refersTo(a.Ref, tags) && slices.ContainsFunc(a.To, func(i target.Item[aims]) bool { return refersTo(i.TargetRef, mesh.Tags{mesh.TagService: "b"}) })
				})
				want := [4]string{here, there, there, chosenNaively(m, whole.Kind, func(a *aimed) bool { return refersTo(a.Ref, tags) })}
				if got := written(t, w.planner.Set(proxy), "b"); got != want {
					rt.Fatalf("%s has %q, want %q", proxy, got, want)
				}
			}
		}
	})
}
