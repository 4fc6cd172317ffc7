package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
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
	clashingEdit
}

func draftOf(g *Gateway, src scopes.Source) *gatewayEdit {
	return &gatewayEdit{
		source: src, scope: g.scope,
		services: editOf(g.services), routes: editOf(g.routes), plugins: editOf(g.plugins),
		targets: editOf(g.targets), bound: editOf(g.bound), anonymous: editOf(g.anonymous), users: editOf(g.users),
		balancingEdit: g.balancing.draft(), identitiesEdit: g.identities.draft(), clashingEdit: g.clashing.draft(),
	}
}

func (d *gatewayEdit) freeze() *Gateway {
	return &Gateway{
		scope: d.scope, members: d.source.Members, revision: d.source.Revision(),
		services: d.services.table, routes: d.routes.table, plugins: d.plugins.table,
		targets: d.targets.table, bound: d.bound.table, anonymous: d.anonymous.table, users: d.users.table,
		balancing: d.balancingEdit.freeze(), identities: d.identitiesEdit.freeze(), clashing: d.clashingEdit.freeze(),
	}
}

// Load reads a whole control plane once, without following it.
func Load(scope string, r store.Reader) (*Gateway, error) {
	return LoadSource(scope, scopes.Of(r, scope))
}

// LoadSource is Load for a scope that may consist of others. What two members share is in
// it once, see [Gateway.LeftOut].
func LoadSource(scope string, src scopes.Source) (*Gateway, error) {
	d := draftOf(&Gateway{scope: scope}, src)
	for i := range kinds {
		if err := d.load(&kinds[i]); err != nil {
			return nil, fmt.Errorf("list %s of %s: %w", kinds[i].kind.Path, scope, err)
		}
	}
	if src.IsUnion() {
		if err := d.join(&consumers); err != nil {
			return nil, fmt.Errorf("list consumers of %s: %w", scope, err)
		}
	}
	return d.freeze(), nil
}

// load reads all resources of a kind.
func (d *gatewayEdit) load(k *kept) error {
	if d.source.IsUnion() {
		return d.join(k)
	}
	rs, err := d.source.List(k.kind, store.Query{})
	if err != nil {
		return err
	}
	for _, res := range rs {
		if err := k.put(d, res); err != nil {
			return err
		}
	}
	return nil
}

// gatewaySource reads and follows a control plane.
func gatewaySource(scope string, resolver scopes.Resolver) source[*Gateway] {
	// newest is what was read last. Its members stay the same ones while they are equal.
	type read struct {
		members *scopes.Members
		at      uint64
	}
	var newest atomic.Pointer[read]
	newest.Store(&read{members: new(scopes.Of(nil, scope).Members)})
	reshapes := func(key model.Key) bool { return resolver.Shapes(scope, key) }
	lasts := scopes.Lasts(resolver, scope)
	return source[*Gateway]{
		read: func(r store.Reader) (*Gateway, error) {
			src, err := resolver.Resolve(r, scope)
			if err != nil {
				return nil, err
			}
			return LoadSource(scope, src)
		},
		load: func(r store.Reader) (*Gateway, error) {
			src, err := resolver.Resolve(r, scope)
			if err != nil {
				return nil, err
			}
			next := &read{newest.Load().members, r.Revision()}
			if !next.members.Equal(src.Members) {
				next.members = &src.Members
			}
			newest.Store(next)
			return LoadSource(scope, src)
		},
		mine: func(key model.Key) bool {
			ours := key.Kind == gateway.Consumers.Name || keptAs(key.Kind) != nil
			return (ours && newest.Load().members.Has(key.Scope)) || reshapes(key)
		},
		reshapes: reshapes,
		members:  func() *scopes.Members { return newest.Load().members },
		membership: func(shown uint64) Membership {
			now := newest.Load()
			if lasts {
				return forever(*now.members)
			}
			return Membership{*now.members, now.at, max(now.at, shown), reshapes}
		},
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
		concerned, err := d.refresh(key)
		if err != nil {
			return nil, nil, fmt.Errorf("refresh %s %s: %w", key.Kind, key.Name, err)
		}
		relevant = append(relevant, concerned...)
	}
	return d.freeze(), relevant, nil
}

// refresh reads one resource again, and returns the keys of what that concerns.
func (d *gatewayEdit) refresh(key model.Key) (concerned []model.Key, err error) {
	if comparedAs(key.Kind) == nil || !d.source.Has(key.Scope) {
		return nil, nil
	}
	_, met := d.clashes.get(textOf(key))
	if d.source.IsUnion() {
		if concerned, err = d.judge(key); err != nil {
			return nil, err
		}
	}
	switch {
	case key.Kind == gateway.Consumers.Name:
		changed, err := d.consumer(key)
		if err != nil || (!changed && !met && len(concerned) < 2) {
			return nil, err // nobody names it, and it meets nobody
		}
		return []model.Key{key}, nil
	case d.source.IsUnion():
		return concerned, nil
	}
	k := keptAs(key.Kind)
	res, err := d.source.Get(k.kind, key.Name)
	if fault.Is(err, fault.NotFound) {
		k.drop(d, key.Scope, key.Name)
		return []model.Key{key}, nil
	}
	if err != nil {
		return nil, err
	}
	return []model.Key{key}, k.put(d, res)
}

// byAnonymous resolves what instances name as their anonymous consumer. The new name is
// retained before the old one is released: a name that stays is not resolved again.
var byAnonymous = index[*Plugin]{
	before: func(d *gatewayEdit, p *Plugin) error {
		if p.Anonymous == "" {
			return nil
		}
		return d.retain(p.Scope, p.Anonymous)
	},
	leave: func(d *gatewayEdit, _ string, p *Plugin) { d.release(within(p.Scope, p.Anonymous)) },
}

// byTarget finds instances by where they are attached.
var byTarget = index[*Plugin]{
	closes: true, // a route would be open
	enter: func(d *gatewayEdit, id string, p *Plugin) {
		if t, ok := gateway.AttachmentOf(p.Spec); ok {
			d.targets.put(targetKey(p.Scope, t), p)
		} else {
			d.bind(targetKey(p.Scope, t), id, p)
		}
	},
	leave: func(d *gatewayEdit, id string, p *Plugin) {
		t, ok := gateway.AttachmentOf(p.Spec)
		if !ok {
			d.bind(targetKey(p.Scope, t), id, nil)
		} else if at, ok := d.targets.get(targetKey(p.Scope, t)); ok && at.ID == id {
			d.targets.drop(targetKey(p.Scope, t))
		}
	},
}

// bind puts p in the place of the instance of that id at a target, or removes
// it if p is nil.
func (d *gatewayEdit) bind(target, id string, p *Plugin) {
	var next Bound
	if old, ok := d.bound.get(target); ok {
		next.Plugins = slices.DeleteFunc(slices.Clone(old.Plugins), func(o *Plugin) bool { return o.ID == id })
	}
	if p != nil {
		next.Plugins = append(next.Plugins, p)
		slices.SortFunc(next.Plugins, func(a, b *Plugin) int { return cmp.Compare(a.ID, b.ID) })
	}
	if len(next.Plugins) == 0 {
		d.bound.drop(target)
		return
	}
	d.bound.put(target, &next)
}

// retain makes sure that a config.anonymous of a member is resolved while it is in use.
func (d *gatewayEdit) retain(scope, configured string) error {
	key := within(scope, configured)
	n, known := d.users.get(key)
	d.users.put(key, n+1)
	if known {
		return nil
	}
	return d.resolve(scope, configured)
}

func (d *gatewayEdit) release(key string) {
	n, ok := d.users.get(key)
	switch {
	case !ok:
	case n > 1:
		d.users.put(key, n-1)
	default:
		d.users.drop(key)
		d.anonymous.drop(key)
	}
}

// resolve finds the consumer that a config.anonymous names: by id if it looks
// like one, then by username. It is one of the plugin's own control plane.
func (d *gatewayEdit) resolve(scope, configured string) error {
	source, key := d.source.In(scope), within(scope, configured)
	if _, err := uuid.Parse(configured); err == nil {
		res, err := source.Get(gateway.Consumers, configured)
		if err == nil {
			d.anonymous.put(key, entryOf[gateway.Consumer](res))
			return nil
		}
		if !fault.Is(err, fault.NotFound) {
			return err
		}
	}
	res, err := source.Find(gateway.Consumers, gateway.IndexUsername, configured)
	switch {
	case err == nil:
		d.anonymous.put(key, entryOf[gateway.Consumer](res))
	case fault.Is(err, fault.NotFound):
		d.anonymous.put(key, nil)
	default:
		return err
	}
	return nil
}

// consumer resolves again what a changed consumer answered or answers to, and
// reports whether anything was. Views hold no other consumers.
func (d *gatewayEdit) consumer(key model.Key) (bool, error) {
	if d.users.size == 0 {
		return false, nil
	}
	affected := []string{key.Name}
	res, err := d.source.In(key.Scope).Get(gateway.Consumers, key.Name)
	switch {
	case err == nil:
		affected = append(affected, entryOf[gateway.Consumer](res).Spec.Username)
	case !fault.Is(err, fault.NotFound):
		return false, err
	}
	for at, c := range d.anonymous.all() {
		if c != nil && c.ID == key.Name && c.Scope == key.Scope {
			_, configured, _ := strings.Cut(at, within("", ""))
			affected = append(affected, configured)
		}
	}
	changed := false
	for _, configured := range affected {
		if _, used := d.users.get(within(key.Scope, configured)); used {
			changed = true
			if err := d.resolve(key.Scope, configured); err != nil {
				return false, err
			}
		}
	}
	return changed, nil
}
