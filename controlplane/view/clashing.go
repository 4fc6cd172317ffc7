package view

import (
	"cmp"
	"iter"
	"slices"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/scopes"
)

// clashing is what a group leaves out of what its members have.
type clashing struct {
	// clashes are by what is left out, and over has what each rival keeps out.
	clashes table[scopes.Clash]
	over    table[[]model.Key]
	// refused are entries that are left out and shown as such.
	refused table[held]
}

// LeftOut lists what the members of a group have in common and whose it is, ordered by what
// is left out. Consumers are among it, although the view does not hold them.
func (g *Gateway) LeftOut() []scopes.Clash {
	if g.clashes.size == 0 {
		return nil
	}
	return slices.SortedFunc(values(g.clashes), func(a, b scopes.Clash) int {
		return cmp.Or(cmp.Compare(a.Left.Kind, b.Left.Kind), cmp.Compare(a.Left.Name, b.Left.Name), cmp.Compare(a.Left.Scope, b.Left.Scope))
	})
}

// Refused yields the routes that are left out, in no particular order. Their requests are
// nobody else's.
func (g *Gateway) Refused() iter.Seq[*Route] {
	return func(yield func(*Route) bool) {
		for v := range values(g.refused) {
			if r, ok := v.(*Route); ok && !yield(r) {
				return
			}
		}
	}
}

// refusedToo has a view show resources that are left out.
var refusedToo = index[*Route]{closes: true}

// clashingEdit is the next clashing while it is being made.
type clashingEdit struct {
	clashes *edit[scopes.Clash]
	over    *edit[[]model.Key]
	refused *edit[held]
}

func (c *clashing) draft() clashingEdit {
	return clashingEdit{editOf(c.clashes), editOf(c.over), editOf(c.refused)}
}

func (d *clashingEdit) freeze() clashing {
	return clashing{d.clashes.table, d.over.table, d.refused.table}
}

// textOf is a key of a table for that of a resource.
func textOf(key model.Key) string { return within(key.Kind, within(key.Scope, key.Name)) }

// clash notes why a resource is left out, nil if it is not.
func (d *clashingEdit) clash(key model.Key, now *scopes.Clash) {
	text := textOf(key)
	if was, ok := d.clashes.get(text); ok {
		rival := textOf(was.Rival)
		over, _ := d.over.get(rival)
		over = slices.DeleteFunc(slices.Clone(over), func(k model.Key) bool { return k == key })
		if d.clashes.drop(text); len(over) == 0 {
			d.over.drop(rival)
		} else {
			d.over.put(rival, over)
		}
	}
	if now != nil {
		rival := textOf(now.Rival)
		over, _ := d.over.get(rival)
		d.clashes.put(text, *now)
		d.over.put(rival, append(slices.Clip(over), key))
	}
}

// consumers are what a group compares besides what views hold: upstreams are told their
// ids and names. Credentials of one that is left out do not count, and it is nobody's
// anonymous consumer.
var consumers = kept{kind: gateway.Consumers, shared: []string{gateway.IndexUsername, gateway.IndexCustomID}}

// comparedAs is how the members of a group compare resources of a kind; nil if they do not.
func comparedAs(kind string) *kept {
	if kind == consumers.kind.Name {
		return &consumers
	}
	return keptAs(kind)
}

// judge reads a resource of a member anew, and whatever it may keep out or have kept out:
// who has a part in the group follows from what shares an id or a value with whom, and from
// nothing else. It returns the keys of what it has read.
func (d *gatewayEdit) judge(key model.Key) (read []model.Key, err error) {
	over, _ := d.over.get(textOf(key))
	read = append(read, key)
	rivals, err := d.place(key)
	if err != nil {
		return nil, err
	}
	for _, res := range rivals {
		read = append(read, res.Key())
	}
	read = append(read, over...)
	for _, other := range read[1:] {
		if _, err := d.place(other); err != nil {
			return nil, err
		}
	}
	return read, nil
}

// place gives a resource its part in the group, or takes it, and returns its rivals.
func (d *gatewayEdit) place(key model.Key) (rivals []*model.Resource, err error) {
	k := comparedAs(key.Kind)
	var clash *scopes.Clash
	res, err := d.source.In(key.Scope).Get(k.kind, key.Name)
	switch {
	case fault.Is(err, fault.NotFound):
		res = nil
	case err != nil:
		return nil, err
	default:
		if rivals, clash, err = d.source.Rivals(res, k.shared...); err != nil {
			return nil, err
		}
	}
	return rivals, d.settle(k, key, res, clash)
}

// settle shows a resource, or that it is left out; res is nil for one that is gone.
func (d *gatewayEdit) settle(k *kept, key model.Key, res *model.Resource, clash *scopes.Clash) error {
	d.clash(key, clash)
	if k.put == nil {
		return nil
	}
	k.allow(d, key)
	if res == nil || clash != nil {
		k.drop(d, key.Scope, key.Name)
	}
	switch {
	case res == nil:
		return nil
	case clash != nil:
		k.refuse(d, res)
		return nil
	}
	return k.put(d, res)
}

// join reads all resources of a kind of all members.
func (d *gatewayEdit) join(k *kept) error {
	all, err := d.source.All(k.kind)
	if err != nil {
		return err
	}
	clashes := scopes.Clashes(all, k.shared...)
	for _, res := range all {
		var clash *scopes.Clash
		if c, ok := clashes[res.Key()]; ok {
			clash = &c
		}
		if err := d.settle(k, res.Key(), res, clash); err != nil {
			return err
		}
	}
	return nil
}
