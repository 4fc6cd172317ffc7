package declare

import (
	"fmt"
	"slices"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
)

// The levels of documents. A mesh may need its secrets, and they need the mesh: it is then
// created without what needs them, and completed afterwards.
const (
	levelGlobal = iota + 1
	levelMesh
	levelSecret
	levelComplete
	levelPolicy
	levelLast
)

func meshLevel(k *model.Kind) int {
	switch {
	case k == mesh.Meshes:
		return levelMesh
	case k.Scoping != model.Mesh:
		return levelGlobal
	case ofSecrets(k):
		return levelSecret
	case k == mesh.MeshGatewayRoutes || ofProxies(k):
		return levelLast
	}
	return levelPolicy
}

// meshPlanner compares documents.
type meshPlanner struct {
	// prune reports whether a document may be deleted.
	prune           func(*meshDoc) bool
	wanted, current []*meshDoc
	plan            *Plan
	// begun are the meshes that the plan creates.
	begun []string
	// warnings are those of what was found out before.
	warnings []string
}

// keyed returns documents by their keys.
func keyed(docs []*meshDoc) map[string]*meshDoc {
	out := make(map[string]*meshDoc, len(docs))
	for _, d := range docs {
		out[d.key()] = d
	}
	return out
}

// compare returns the operations that make the control plane hold what is wanted.
func (p *meshPlanner) compare() *Plan {
	p.plan, p.begun = &Plan{Warnings: slices.Clone(p.warnings)}, nil
	have, want := keyed(p.current), map[string]bool{}
	for _, d := range p.wanted {
		want[d.key()] = true
		is := have[d.key()]
		if is == nil {
			p.create(d, have)
			continue
		}
		p.update(d, is)
	}
	for _, d := range p.current {
		if !want[d.key()] && p.prune(d) {
			p.plan.Ops = append(p.plan.Ops, meshOp(Deleting, nil, d))
		}
	}
	p.plan.sort()
	return p.plan
}

// create plans a new document.
func (p *meshPlanner) create(d *meshDoc, have map[string]*meshDoc) {
	op := meshOp(Creating, d, nil)
	p.plan.Ops = append(p.plan.Ops, op)
	if d.kind != mesh.Meshes {
		return
	}
	p.begun = append(p.begun, d.name)
	var needs []string
	for _, s := range p.wanted {
		if s.kind == mesh.Secrets && s.mesh == d.name && have[s.key()] == nil {
			needs = append(needs, s.key())
		}
	}
	if d.values["mtls"] == nil || len(needs) == 0 {
		return
	}
	first := *d
	first.values = map[string]any{"type": d.values["type"], "name": d.name}
	if skip := d.values["skipCreatingInitialPolicies"]; skip != nil {
		first.values["skipCreatingInitialPolicies"] = skip
	}
	*op = *meshOp(Creating, &first, nil)
	second := meshOp(Updating, d, &first)
	second.Level, second.Needs = levelComplete, append(needs, op.ID)
	for _, name := range (fields{}).differing(d.values, first.values) {
		second.Changes = append(second.Changes, masking(d.kind, nil).changes(name, first.values[name], d.values[name])...)
	}
	p.plan.Ops = append(p.plan.Ops, second)
}

// update plans a change. What the caller may not see is not compared.
func (p *meshPlanner) update(d, is *meshDoc) {
	names := d.differing(is)
	if len(names) == 0 {
		if concealed(is.values) {
			p.plan.Warnings = append(p.plan.Warnings, is.label()+" has secrets that are concealed from you, which were not compared")
		}
		return
	}
	if lost := is.lost(); lost != "" {
		p.plan.Warnings = append(p.plan.Warnings, lost)
	}
	op, old := meshOp(Updating, d, is), d.seen(is)
	op.unasked = d.unasked
	for _, name := range names {
		op.Changes = append(op.Changes, masking(d.kind, nil).changes(name, old[name], d.becomes()[name])...)
	}
	p.plan.Ops = append(p.plan.Ops, op)
}

// differing lists the members that another document has to get, in order.
func (d *meshDoc) differing(is *meshDoc) []string { return fields{}.differing(d.becomes(), d.seen(is)) }

// seen returns what there is of a document, with what is wanted in place of what the caller may not see.
func (d *meshDoc) seen(is *meshDoc) map[string]any {
	if !concealed(is.values) {
		return is.values
	}
	old, _ := reveal(is.values, d.values).(map[string]any)
	return old
}

// reveal puts what is wanted where a secret is concealed, so that both are equal.
func reveal(is, want any) any {
	switch is := is.(type) {
	case string:
		if is == model.Concealed {
			return want
		}
	case map[string]any:
		other, _ := want.(map[string]any)
		out := make(map[string]any, len(is))
		for name := range is {
			out[name] = reveal(is[name], other[name])
		}
		return out
	case []any:
		other, _ := want.([]any)
		out := make([]any, len(is))
		for i := range is {
			out[i] = is[i]
			if i < len(other) {
				out[i] = reveal(is[i], other[i])
			}
		}
		return out
	}
	return is
}

func meshOp(action string, d, is *meshDoc) *Op {
	about := d
	if d == nil {
		about = is
	}
	o := &Op{
		Action: action, Kind: about.kind.Document.Type, Name: about.name, Label: about.label(),
		Level: meshLevel(about.kind), Path: about.path(), ID: about.key(),
	}
	if about.kind.Scoping == model.Mesh {
		o.Needs = []string{mesh.Meshes.Name + "//" + about.mesh}
	}
	if is != nil {
		o.Old = masking(is.kind, nil).object(is.values)
	}
	if d != nil {
		o.secrets = masking(d.kind, nil).secrets("", d.values)
		o.Body, o.New = d.values, masking(d.kind, nil).object(d.becomes())
	}
	return o
}

// textInitial explains why a plan for a new mesh is not the whole truth.
func textInitial(name string) string {
	return fmt.Sprintf("mesh %s begins with policies of its own (skipCreatingInitialPolicies): sync deletes those that the file does not name", name)
}
