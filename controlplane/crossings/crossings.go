// Package crossings keeps what meshes know of each other: the roots of meshes with mutual TLS, and
// the listeners of gateways that proxies of other meshes may call ([mesh.Crossing]).
//
// It is written in the transaction that changes what it is made of. So a revision of the store shows
// both or neither, a dry run shows what other meshes would get, and a step of a rotation is
// confirmed by proxies of other meshes under the same revision as by those of its own.
package crossings

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/selection"
)

// Follow brings the crossings in line with what a transaction has changed so far. It costs nothing
// unless that is a mesh, its roots, a MeshGateway or the Dataplane of a builtin gateway. A mesh of
// which a row cannot be read keeps what others know of it, so that it keeps nobody from writing, and a
// crossing that cannot be read is made anew.
func Follow(tx store.Tx) error {
	touched := touchedBy(tx.Changes())
	if len(touched) == 0 {
		return nil
	}
	stored, err := store.ListAll(tx, mesh.Crossings, store.Query{})
	if err != nil {
		return fmt.Errorf("list crossings: %w", err)
	}
	w := &writer{tx: tx, was: map[string]*mesh.Crossing{}, versions: map[string]uint64{}, now: map[string]*mesh.Crossing{}}
	for _, res := range stored {
		w.versions[res.Name] = res.Version
		if c, readable := res.Spec.(*mesh.Crossing); readable {
			w.was[res.Name], w.now[res.Name] = c, c
		} else {
			w.unread = append(w.unread, res.Name)
		}
	}
	before := w.called() || len(w.unread) > 0
	touched = slices.Concat(touched, w.unread) // these are made anew
	if err := w.work(touched); err != nil {
		return err
	}
	switch after := w.called(); {
	case !after:
		clear(w.now) // nobody has to know anybody
	case !before:
		if err := w.all(); err != nil {
			return err
		}
	}
	w.hold()
	return w.write()
}

// touchedBy lists the meshes whose crossings may be others after some changes.
func touchedBy(changes []store.Change) []string {
	out := map[string]struct{}{}
	for i := range changes {
		for _, res := range []*model.Resource{changes[i].Old, changes[i].New} {
			if res == nil {
				continue
			}
			switch res.Kind {
			case mesh.Meshes:
				out[res.Name] = struct{}{}
			case mesh.Trusts, mesh.MeshGateways:
				out[res.Scope] = struct{}{}
			case mesh.Dataplanes:
				// One that could not be read may have been a gateway.
				if spec, readable := res.Spec.(*mesh.Dataplane); !readable || selection.Builtin(spec.Networking) {
					out[res.Scope] = struct{}{}
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(out))
}

// writer holds the crossings before and after a transaction, by the names of their meshes.
type writer struct {
	tx       store.Tx
	was, now map[string]*mesh.Crossing
	// versions are those of all that are stored, and unread those that cannot be read.
	versions map[string]uint64
	unread   []string
}

// called reports whether any mesh has a listener that others may call.
func (w *writer) called() bool {
	for _, c := range w.now {
		if len(c.Listeners) > 0 {
			return true
		}
	}
	return false
}

// all makes the crossings of all meshes.
func (w *writer) all() error {
	meshes, _, err := store.ListReadable(w.tx, mesh.Meshes, "")
	if err != nil {
		return fmt.Errorf("list meshes: %w", err)
	}
	names := make([]string, len(meshes))
	for i, res := range meshes {
		names[i] = res.Name
	}
	return w.work(names)
}

func (w *writer) work(names []string) error {
	for _, name := range names {
		c, err := of(w.tx, name, w.was[name])
		switch {
		case errors.Is(err, store.ErrUnreadable):
			continue
		case err != nil:
			return err
		case c == nil:
			delete(w.now, name)
		default:
			w.now[name] = c
		}
	}
	return nil
}

// hold gives each host to one mesh: to the one whose it was, else to the first that has it. Who comes
// later takes no name from anybody, and gets it when the holder gives it up.
func (w *writer) hold() {
	holders, names := map[string]string{}, slices.Sorted(maps.Keys(w.now))
	claim := func(name string, hosts []mesh.Name) {
		for _, n := range hosts {
			if holders[n.Host] == "" {
				holders[n.Host] = name
			}
		}
	}
	for _, name := range names {
		if w.was[name] == nil {
			continue
		}
		had := w.was[name].Offered()
		has := w.now[name].CrossHosts()
		claim(name, slices.DeleteFunc(had, func(n mesh.Name) bool {
			return !slices.ContainsFunc(has, func(o mesh.Name) bool { return o.Host == n.Host })
		}))
	}
	for _, name := range w.unread { // what it had is not known, and nobody else has it
		if c := w.now[name]; c != nil {
			claim(name, c.CrossHosts())
		}
	}
	for _, name := range names {
		claim(name, w.now[name].CrossHosts())
	}
	for _, name := range names {
		c := *w.now[name]
		c.Taken = nil
		for _, n := range c.CrossHosts() {
			if holders[n.Host] != name {
				c.Taken = append(c.Taken, n.Host)
			}
		}
		slices.Sort(c.Taken)
		c.Taken = slices.Compact(c.Taken)
		w.now[name] = &c
	}
}

// write stores what differs.
func (w *writer) write() error {
	for _, name := range slices.Sorted(maps.Keys(w.versions)) {
		if w.was[name] != nil && w.now[name] != nil {
			continue
		}
		if err := w.tx.Delete(mesh.Crossings, "", name, w.versions[name]); err != nil {
			return fmt.Errorf("delete what other meshes know of mesh %s: %w", name, err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(w.now)) {
		was, next := w.was[name], &model.Resource{Kind: mesh.Crossings, Name: name, Spec: w.now[name]}
		var err error
		switch {
		case was == nil:
			_, err = w.tx.Create(next)
		case !reflect.DeepEqual(was, w.now[name]):
			_, err = w.tx.Update(next, w.versions[name])
		}
		if err != nil {
			return fmt.Errorf("store what other meshes know of mesh %s: %w", name, err)
		}
	}
	return nil
}

// of returns what other meshes may know of a mesh, nil if it does not exist or has no mutual TLS. was
// is what they know.
func of(r store.Reader, name string, was *mesh.Crossing) (*mesh.Crossing, error) {
	res, err := r.Get(mesh.Meshes, "", name)
	if fault.Is(err, fault.NotFound) {
		return nil, nil //nolint:nilnil // nil is none
	}
	if err != nil {
		return nil, err
	}
	if res.Spec.(*mesh.Mesh).Authority() == nil {
		return nil, nil //nolint:nilnil // nil is none
	}
	trust, err := r.Get(mesh.Trusts, name, name)
	if fault.Is(err, fault.NotFound) {
		return nil, nil //nolint:nilnil // its authority is about to be made
	}
	if err != nil {
		return nil, err
	}
	t := trust.Spec.(*mesh.Trust)
	c := &mesh.Crossing{Mesh: name, Roots: t.Roots, Withdrawn: t.Withdrawn}
	if len(c.Roots) > mesh.MostCrossRoots {
		c.Roots = nil // nobody knows it, rather than that others make room
		return c, nil
	}
	return c, listeners(r, c, was)
}

// gateways are the MeshGateways of a mesh, ordered by name.
type gateways []*view.Policy

// Candidates implements [selection.Candidates].
func (g gateways) Candidates(*model.Kind, string) iter.Seq[*view.Policy] { return slices.Values(g) }

// listeners adds the listeners that other meshes may call. They stay what they were while a
// MeshGateway cannot be read.
func listeners(r store.Reader, c, was *mesh.Crossing) error {
	list, unreadable, err := store.ListReadable(r, mesh.MeshGateways, c.Mesh)
	if err != nil {
		return fmt.Errorf("list MeshGateways of mesh %s: %w", c.Mesh, err)
	}
	if len(unreadable) > 0 && was != nil {
		c.Listeners, c.Full = was.Listeners, was.Full
		return nil
	}
	var all gateways
	some := false
	for _, res := range list {
		spec := res.Spec.(*mesh.MeshGateway)
		p := &view.Policy{Kind: res.Kind, Name: res.Name, Created: res.Created, Version: res.Version, Spec: spec}
		p.Select(spec)
		all = append(all, p)
		if spec.Crosses() {
			some = true
			listed(c, spec)
		}
	}
	if !some {
		return nil
	}
	dataplanes, _, err := store.ListReadable(r, mesh.Dataplanes, c.Mesh)
	if err != nil {
		return fmt.Errorf("list Dataplanes of mesh %s: %w", c.Mesh, err)
	}
	for _, res := range dataplanes {
		if n := res.Spec.(*mesh.Dataplane).Networking; selection.Builtin(n) {
			placed(c, all, n)
		}
	}
	return nil
}

// listed adds the listeners of a MeshGateway for gateways of one service, which need not exist yet:
// callers know the name while none is there.
func listed(c *mesh.Crossing, g *mesh.MeshGateway) {
	for _, s := range g.Selectors {
		service := s.Match.Service()
		if service == "" || service == mesh.AnyValue {
			continue
		}
		for l := range across(g) {
			c.Add(service, l, nil)
		}
	}
}

// placed adds the listeners of one gateway.
func placed(c *mesh.Crossing, all gateways, n *mesh.Networking) {
	tags := n.Gateway.Tags
	chosen := selection.ChosenGateway(all, tags)
	if chosen == nil || tags.Service() == "" {
		return
	}
	g := chosen.Spec.(*mesh.MeshGateway)
	for l := range across(g) {
		own := g.ListenerTags(tags, l)
		delete(own, mesh.TagService)
		c.Add(tags.Service(), l, &mesh.CrossEndpoint{Address: cmp.Or(n.AdvertisedAddress, n.Address), Tags: own})
	}
}

// across yields the listeners that other meshes may call.
func across(g *mesh.MeshGateway) iter.Seq[*mesh.GatewayListener] {
	return func(yield func(*mesh.GatewayListener) bool) {
		all := g.Listeners()
		for i := range all {
			if all[i].CrossMesh && !yield(&all[i]) {
				return
			}
		}
	}
}
