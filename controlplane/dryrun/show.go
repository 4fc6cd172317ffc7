package dryrun

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	"github.com/meshgate/meshgate/controlplane/addresses"
	"github.com/meshgate/meshgate/controlplane/changes"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/nodes"
	"github.com/meshgate/meshgate/controlplane/publish"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/inspect"
	"github.com/meshgate/meshgate/xds/resource"
)

// Bounds of an answer.
const (
	// maxBytes bounds all differences, in bytes of JSON.
	maxBytes = 1 << 20
	// maxRead bounds what differences are made of, in bytes of configuration.
	maxRead = 64 << 20
	// maxResources, maxNames (of one change), maxProblems and maxWrites bound the lists.
	// maxMembers bounds the members of all writes.
	maxResources = 2000
	maxNames     = 50
	maxProblems  = 100
	maxWrites    = 200
	maxMembers   = 5000
	// maxHosts is how many host names a sentence lists.
	maxHosts = 5
)

const textWithheld = "what would be written and what nodes would get is shown to those only who administrate all that it concerns"

// answer makes the answer. full says that the caller may see configurations.
func (t *trial) answer(ctx context.Context, seen []publish.Foreseen, full bool) (*Answer, error) {
	a := &Answer{
		DryRun: true, Verdict: t.verdict, Revision: t.revision, Cut: &Cut{},
		Writes: []Write{}, Changes: []Change{}, Problems: []Problem{},
	}
	for i := range seen {
		a.Nodes.Compared += seen[i].Compared
		a.Nodes.Omitted += seen[i].Omitted
	}
	s := shower{ctx: ctx, answer: a, bytes: maxBytes, read: maxRead, resources: maxResources}
	groups, err := s.group(seen)
	if err != nil {
		return nil, err
	}
	switch {
	case full:
		a.write(t.records)
		a.complain(seen)
		a.follow(seen)
		for _, g := range groups {
			if err := s.show(g); err != nil {
				return nil, err
			}
		}
	default:
		a.Withheld = textWithheld
	}
	if *a.Cut == (Cut{}) {
		a.Cut = nil
	}
	return a, nil
}

// write lists what would be written.
func (a *Answer) write(records []store.ChangeRecord) {
	members := maxMembers
	for i := range records {
		if len(a.Writes) == maxWrites || members < 0 {
			a.Cut.Writes = len(records) - i
			return
		}
		r := changes.Show(&records[i])
		members -= len(r.Members)
		a.Writes = append(a.Writes, Write{
			Action: r.Action, Resource: r.Resource, Title: r.Title, Count: r.Count, Cause: r.Cause, Members: r.Members, More: r.More,
		})
	}
}

// complain lists what could not be made, what is new first.
func (a *Answer) complain(seen []publish.Foreseen) {
	var all []Problem
	for i := range seen {
		for _, f := range seen[i].Failures {
			all = append(all, Problem{
				Mesh: f.Mesh, ControlPlane: f.ControlPlane, Resource: f.Cell, Error: f.Err.Error(),
				Kept: f.Kept, Already: f.Already, Awaited: f.Awaited, Nodes: f.Nodes,
			})
		}
	}
	rank := func(p Problem) int {
		switch {
		case p.Already:
			return 2
		case p.Awaited:
			return 1
		}
		return 0
	}
	slices.SortStableFunc(all, func(x, y Problem) int { return rank(x) - rank(y) })
	if len(all) > maxProblems {
		a.Cut.Problems = len(all) - maxProblems
		all = all[:maxProblems]
	}
	a.Problems = append(a.Problems, all...)
}

// follow says what the control plane would do by itself after the write.
func (a *Answer) follow(seen []publish.Foreseen) {
	for i := range seen {
		m, gone := seen[i].Mesh, seen[i].Gone
		if m == nil {
			if len(gone) > 0 {
				a.Follows = append(a.Follows, fmt.Sprintf("zone: the connected proxies %s have no resource any more, and are turned away", some(gone)))
			}
			continue
		}
		name := m.After.Name()
		if hosts := fresh(addresses.Missing(m.Before), addresses.Missing(m.After)); len(hosts) > 0 {
			a.Follows = append(a.Follows, fmt.Sprintf("mesh %s: addresses are stored for %s; transparent proxies get them by that", name, some(hosts)))
		}
		if len(gone) > 0 {
			a.Follows = append(a.Follows, fmt.Sprintf("mesh %s: the connected proxies of %s have no dataplane any more, and are turned away", name, some(gone)))
		}
		if before, after := m.Before.Spec(), m.After.Spec(); before != nil && after != nil {
			if changed, err := changes.Between(
				&model.Resource{Kind: mesh.Meshes, Spec: before.Spec}, &model.Resource{Kind: mesh.Meshes, Spec: after.Spec}); err == nil && concernsMTLS(changed) {
				a.Follows = append(a.Follows, fmt.Sprintf("mesh %s: mutual TLS changes in steps, each when proxies have confirmed the one before; only the first is shown", name))
			}
		}
	}
}

func concernsMTLS(d changes.Difference) bool {
	return slices.ContainsFunc(d.Members, func(m store.Member) bool { return strings.HasPrefix(m.Path, "/mtls") })
}

// fresh returns what is in after only.
func fresh(before, after []string) []string {
	known := map[string]bool{}
	for _, name := range before {
		known[name] = true
	}
	return slices.DeleteFunc(after, func(name string) bool { return known[name] })
}

// some lists the first of some names.
func some(names []string) string {
	if len(names) <= maxHosts {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:maxHosts], ", "), len(names)-maxHosts)
}

// group is some nodes with what becomes of them all.
type group struct {
	nodes     []string
	shifts    []inspect.Shift
	uncertain bool
}

// fate is everything of a fate but its node. Gateways that are alike have the same sets.
type fate struct {
	before, after, held *resource.Set
	uncertain           bool
	kind                string
}

// shower lists changes as long as there is room.
type shower struct {
	ctx                    context.Context //nolint:containedctx // that of the one answer that it makes
	answer                 *Answer
	bytes, read, resources int
}

// group gathers nodes with which the same happens, in the order of their first ones.
func (s *shower) group(seen []publish.Foreseen) (out []*group, err error) {
	known, byContent := map[fate]*group{}, map[[sha256.Size]byte]*group{}
	compared := inspect.Shifts{}
	for i := range seen {
		for _, f := range seen[i].Fates {
			if err := s.ctx.Err(); err != nil {
				return nil, slow(err)
			}
			what := fate{f.Before, f.After, f.Held, f.Uncertain, nodes.TypeOf(f.Node)}
			g := known[what]
			if g == nil {
				shifts := compared.Between(f.Before, f.After, f.Held)
				content := what.digest(shifts)
				if g = byContent[content]; g == nil {
					g = &group{shifts: shifts, uncertain: f.Uncertain}
					byContent[content] = g
					out = append(out, g)
				}
				known[what] = g
			}
			g.nodes = append(g.nodes, f.Node)
			if f.Uncertain {
				s.answer.Nodes.Uncertain++
			}
			if len(g.shifts) > 0 {
				s.answer.Nodes.Changed++
			}
		}
	}
	return slices.DeleteFunc(out, func(g *group) bool { return len(g.shifts) == 0 }), nil
}

// digest tells apart what happens with nodes.
func (f *fate) digest(shifts []inspect.Shift) [sha256.Size]byte {
	h := sha256.New()
	_, _ = fmt.Fprintf(h, "%q %t\n", f.kind, f.uncertain)
	for i := range shifts {
		x := &shifts[i]
		_, _ = fmt.Fprintf(h, "%q %q %q %q\n", x.Type, x.Name, x.Before, x.After)
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// show adds what becomes of a group.
func (s *shower) show(g *group) error {
	cut := s.answer.Cut
	c := Change{Nodes: g.nodes[:min(len(g.nodes), maxNames)], Count: len(g.nodes), Kind: nodes.TypeOf(g.nodes[0]), Uncertain: g.uncertain, Resources: []Resource{}}
	cut.Nodes += len(g.nodes) - len(c.Nodes)
	for i := range g.shifts {
		if s.resources == 0 {
			cut.Resources += len(g.shifts) - i
			break
		}
		s.resources--
		r, err := s.resource(&g.shifts[i])
		if err != nil {
			return err
		}
		c.Resources = append(c.Resources, r)
	}
	s.answer.Changes = append(s.answer.Changes, c)
	return nil
}

// resource describes what becomes of a resource, with the difference if there is room for it. One
// that is too large leaves room for others.
func (s *shower) resource(x *inspect.Shift) (Resource, error) {
	r := Resource{Type: string(x.Type), Name: x.Name, Change: x.What()}
	if s.ctx.Err() == nil && s.bytes > 0 && x.Size() <= s.read {
		s.read -= x.Size()
		diff, err := x.Diff()
		if err != nil {
			return r, err
		}
		size := 0
		for i := range diff {
			size += len(diff[i].Path) + len(diff[i].Value) + 40 // names of members and quotes
		}
		if size <= s.bytes {
			s.bytes -= size
			r.Diff = diff
			return r, nil
		}
	}
	r.Cut = true
	s.answer.Cut.Differences++
	return r, nil
}
