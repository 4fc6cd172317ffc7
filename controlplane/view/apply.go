package view

import (
	"cmp"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/google/uuid"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/scopes"
	"github.com/meshgate/meshgate/controlplane/store"
)

// gatewayEdit is the next state while it is being made from the previous one.
type gatewayEdit struct {
	source    scopes.Source
	scope     string
	services  *edit[*Service]
	routes    *edit[*Route]
	plugins   *edit[*Plugin]
	targets   *edit[*Plugin]
	bound     *edit[*Bound]
	anonymous *edit[*Consumer]
	users     *edit[int]
	balancingEdit
	identitiesEdit
}

func draftOf(g *Gateway, src scopes.Source) *gatewayEdit {
	return &gatewayEdit{
		source: src, scope: g.scope,
		services: editOf(g.services), routes: editOf(g.routes), plugins: editOf(g.plugins),
		targets: editOf(g.targets), bound: editOf(g.bound), anonymous: editOf(g.anonymous), users: editOf(g.users),
		balancingEdit: g.balancing.draft(), identitiesEdit: g.identities.draft(),
	}
}

func (d *gatewayEdit) freeze() *Gateway {
	return &Gateway{
		scope: d.scope, members: d.source.Members, revision: d.source.Revision(),
		services: d.services.table, routes: d.routes.table, plugins: d.plugins.table,
		targets: d.targets.table, bound: d.bound.table, anonymous: d.anonymous.table, users: d.users.table,
		balancing: d.balancingEdit.freeze(), identities: d.identitiesEdit.freeze(),
	}
}

// Load reads a whole control plane once, without following it.
func Load(scope string, r store.Reader) (*Gateway, error) {
	return LoadSource(scope, scopes.Of(r, scope))
}

// LoadSource is Load for a scope that may consist of others. Its error may be a
// [scopes.Conflict].
func LoadSource(scope string, src scopes.Source) (*Gateway, error) {
	d := draftOf(&Gateway{scope: scope}, src)
	for _, k := range kinds {
		rs, err := src.List(k.kind, store.Query{})
		if err != nil {
			return nil, fmt.Errorf("list %s of %s: %w", k.kind.Path, scope, err)
		}
		for _, res := range rs {
			if err := k.put(d, res); err != nil {
				return nil, err
			}
		}
	}
	// A view does not hold consumers, but they may not clash either.
	if src.IsUnion() {
		if _, err := src.List(gateway.Consumers, store.Query{}); err != nil {
			return nil, fmt.Errorf("list consumers of %s: %w", scope, err)
		}
	}
	return d.freeze(), nil
}

// gatewaySource reads and follows a control plane.
func gatewaySource(scope string, resolver scopes.Resolver) source[*Gateway] {
	// members are those of the newest read, also of one that found a conflict: what
	// happens to them may be the end of it.
	var members atomic.Pointer[scopes.Members]
	members.Store(new(scopes.Of(nil, scope).Members))
	reshapes := func(key model.Key) bool { return resolver.Shapes(scope, key) }
	return source[*Gateway]{
		load: func(r store.Reader) (*Gateway, error) {
			src, err := resolver.Resolve(r, scope)
			if err != nil {
				return nil, err
			}
			if !members.Load().Equal(src.Members) {
				members.Store(&src.Members)
			}
			return LoadSource(scope, src)
		},
		mine: func(key model.Key) bool {
			ours := key.Kind == gateway.Consumers.Name || keptAs(key.Kind) != nil
			return (ours && members.Load().Has(key.Scope)) || reshapes(key)
		},
		reshapes: reshapes,
		members:  members.Load,
	}
}

// at implements [State].
func (g *Gateway) at(revision uint64) *Gateway {
	next := *g
	next.revision = revision
	return &next
}

// apply implements [State]. Keys of other kinds are ignored.
func (g *Gateway) apply(r store.Reader, keys []model.Key) (next *Gateway, relevant []model.Key, err error) {
	d := draftOf(g, g.members.Over(r))
	for _, key := range keys {
		changed, err := d.refresh(key)
		if err != nil {
			return nil, nil, fmt.Errorf("refresh %s %s: %w", key.Kind, key.Name, err)
		}
		if changed {
			relevant = append(relevant, key)
		}
	}
	return d.freeze(), relevant, nil
}

// refresh reads one resource again.
func (d *gatewayEdit) refresh(key model.Key) (bool, error) {
	if key.Kind == gateway.Consumers.Name {
		return d.consumer(key.Name)
	}
	k := keptAs(key.Kind)
	if k == nil {
		return false, nil
	}
	res, err := d.source.Get(k.kind, key.Name)
	if fault.Is(err, fault.NotFound) {
		k.drop(d, key.Name)
		return true, nil
	}
	if err != nil {
		return true, err
	}
	if err := d.source.Check(res); err != nil {
		return true, err
	}
	return true, k.put(d, res)
}

// byAnonymous resolves what instances name as their anonymous consumer. The new name is
// retained before the old one is released: a name that stays is not resolved again.
var byAnonymous = index[*Plugin]{
	before: func(d *gatewayEdit, p *Plugin) error {
		if p.Anonymous == "" {
			return nil
		}
		return d.retain(p.Anonymous)
	},
	leave: func(d *gatewayEdit, _ string, p *Plugin) { d.release(p.Anonymous) },
}

// byTarget finds instances by where they are attached.
var byTarget = index[*Plugin]{
	enter: func(d *gatewayEdit, id string, p *Plugin) {
		if t, ok := gateway.AttachmentOf(p.Spec); ok {
			d.targets.put(targetKey(t), p)
		} else {
			d.bind(t, id, p)
		}
	},
	leave: func(d *gatewayEdit, id string, p *Plugin) {
		t, ok := gateway.AttachmentOf(p.Spec)
		if !ok {
			d.bind(t, id, nil)
		} else if at, ok := d.targets.get(targetKey(t)); ok && at.ID == id {
			d.targets.drop(targetKey(t))
		}
	},
}

// bind puts p in the place of the instance of that id at a target, or removes
// it if p is nil.
func (d *gatewayEdit) bind(t gateway.Attachment, id string, p *Plugin) {
	var next Bound
	if old, ok := d.bound.get(targetKey(t)); ok {
		next.Plugins = slices.DeleteFunc(slices.Clone(old.Plugins), func(o *Plugin) bool { return o.ID == id })
	}
	if p != nil {
		next.Plugins = append(next.Plugins, p)
		slices.SortFunc(next.Plugins, func(a, b *Plugin) int { return cmp.Compare(a.ID, b.ID) })
	}
	if len(next.Plugins) == 0 {
		d.bound.drop(targetKey(t))
		return
	}
	d.bound.put(targetKey(t), &next)
}

// retain makes sure that a config.anonymous is resolved while it is in use.
func (d *gatewayEdit) retain(configured string) error {
	n, known := d.users.get(configured)
	d.users.put(configured, n+1)
	if known {
		return nil
	}
	return d.resolve(configured)
}

func (d *gatewayEdit) release(configured string) {
	n, ok := d.users.get(configured)
	switch {
	case !ok:
	case n > 1:
		d.users.put(configured, n-1)
	default:
		d.users.drop(configured)
		d.anonymous.drop(configured)
	}
}

// resolve finds the consumer that a config.anonymous names: by id if it looks
// like one, then by username.
func (d *gatewayEdit) resolve(configured string) error {
	if _, err := uuid.Parse(configured); err == nil {
		res, err := d.source.Get(gateway.Consumers, configured)
		if err == nil {
			d.anonymous.put(configured, entryOf[gateway.Consumer](res))
			return nil
		}
		if !fault.Is(err, fault.NotFound) {
			return err
		}
	}
	res, err := d.source.Find(gateway.Consumers, gateway.IndexUsername, configured)
	switch {
	case err == nil:
		d.anonymous.put(configured, entryOf[gateway.Consumer](res))
	case fault.Is(err, fault.NotFound):
		d.anonymous.put(configured, nil)
	default:
		return err
	}
	return nil
}

// consumer resolves again what a changed consumer answered or answers to, and
// reports whether anything was. Views hold no other consumers.
func (d *gatewayEdit) consumer(id string) (bool, error) {
	if d.users.size == 0 && !d.source.IsUnion() {
		return false, nil
	}
	affected := []string{id}
	res, err := d.source.Get(gateway.Consumers, id)
	switch {
	case err == nil:
		affected = append(affected, entryOf[gateway.Consumer](res).Spec.Username)
		if err := d.source.Check(res); err != nil {
			return false, err
		}
	case !fault.Is(err, fault.NotFound):
		return false, err
	}
	for configured, c := range d.anonymous.all() {
		if c != nil && c.ID == id {
			affected = append(affected, configured)
		}
	}
	changed := false
	for _, configured := range affected {
		if _, used := d.users.get(configured); used {
			changed = true
			if err := d.resolve(configured); err != nil {
				return false, err
			}
		}
	}
	return changed, nil
}
