package declare

import (
	"context"
	"fmt"
	"slices"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
)

// cascades adds to a plan what goes with what it deletes and was not read, because it is not
// selected: the API deletes it, too, and whoever reads the plan should know. Access tokens are
// left out; they are no configuration.
func (p *planner) cascades(ctx context.Context, api *API) error {
	gone := map[string]*Entity{}
	for _, o := range p.plan.Ops {
		if o.Action == Deleting {
			gone[o.kind.Name+"/"+o.ID] = p.current.get(o.kind.Name, o.ID)
		}
	}
	for _, k := range Kinds(false, false) { // what refers to something comes after it
		refs := slices.DeleteFunc(slices.Clone(k.Refs), func(ref model.Ref) bool { return ref.OnDelete != model.Cascade || !anyOf(gone, ref.To) })
		if len(refs) == 0 {
			continue
		}
		all, err := api.Read(ctx, []*model.Kind{k}, nil, false)
		if err != nil {
			return err
		}
		for _, e := range all.Entities {
			if p.current.get(k.Name, e.ID) != nil {
				continue
			}
			for i := range refs {
				to := gone[refs[i].To+"/"+refID(e.Values, refs[i].Name)]
				if to == nil {
					continue
				}
				gone[k.Name+"/"+e.ID] = e
				op := p.op(Deleting, nil, e)
				p.plan.Ops = append(p.plan.Ops, op)
				p.plan.Warnings = append(p.plan.Warnings, fmt.Sprintf("%s goes with %s, although it is not selected", op.Label, label(to, p.current)))
				break
			}
		}
	}
	p.plan.sort()
	return nil
}

func anyOf(entities map[string]*Entity, kind string) bool {
	for _, e := range entities {
		if e.Kind.Name == kind && e.Kind != gateway.Tokens {
			return true
		}
	}
	return false
}
