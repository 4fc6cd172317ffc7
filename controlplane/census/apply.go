package census

import (
	"context"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// apply replaces the share of the resource of an event. Of kinds whose content counts, the state
// of r decides, which may be newer; later events then change nothing.
func (c *Census) apply(r store.Reader, e store.Event) error {
	k := c.counter.of[e.Key.Kind]
	switch k {
	case mesh.Meshes, mesh.Dataplanes, mesh.ExternalServices, mesh.Zones, mesh.ZoneIngresses, mesh.ZoneEgresses:
	default:
		c.counter.exists(e.Key, e.Op != store.Deleted)
		return nil
	}
	res, err := r.Get(k, e.Key.Scope, e.Key.Name)
	switch unread := store.UnreadIn(err); {
	case unread != nil:
		res = unread
	case fault.Is(err, fault.NotFound):
		c.gone(k, e.Key)
		return nil
	case err != nil:
		return err
	}
	c.count(res)
	return nil
}

// gone takes away the share of a resource that does not exist.
func (c *Census) gone(k *model.Kind, key model.Key) {
	n := c.counter
	switch k {
	case mesh.Meshes:
		n.meshed(key.Name, false, n.mesh(key.Name).created)
	case mesh.Dataplanes:
		n.dataplane(key, nil)
		n.listed.put(key.Scope, key.Name, nil)
	case mesh.ExternalServices:
		n.external(key, nil, false)
	default:
		n.zoned(key, false, false, false)
	}
}

// count replaces the share of a resource. One that cannot be read exists, and nothing else is
// known about it.
func (c *Census) count(res *model.Resource) {
	n, key := c.counter, res.Key()
	switch res.Kind {
	case mesh.Meshes:
		n.meshed(key.Name, true, res.Created.UTC())
	case mesh.Dataplanes:
		d, _ := res.Spec.(*mesh.Dataplane)
		in := c.Insight(key.Scope, key.Name)
		n.dataplane(key, shareOf(d, in))
		n.listed.put(key.Scope, key.Name, listedOf(res, in))
	case mesh.ExternalServices:
		x, _ := res.Spec.(*mesh.ExternalService)
		n.external(key, x, true)
	case mesh.Zones, mesh.ZoneIngresses, mesh.ZoneEgresses:
		z, readable := res.Spec.(*mesh.Zone)
		n.zoned(key, true, c.Online(res.Kind, key.Name), readable && z.IsEnabled())
	default:
		n.exists(key, true)
	}
}

// load lists everything and returns the revision that it shows.
func (c *Census) load(ctx context.Context) (revision uint64, err error) {
	c.counting.Lock()
	defer c.counting.Unlock()
	_, marks := c.take() // all that is known is looked at
	c.counter = newCounter(c.Kinds)
	err = c.Store.View(ctx, func(r store.Reader) error {
		revision = r.Revision()
		meshes, err := store.ListAll(r, mesh.Meshes, store.Query{})
		if err != nil {
			return err
		}
		for _, k := range c.counter.of {
			scopes := []string{""}
			if k.Scoping == model.Mesh {
				scopes = nil
				for _, m := range meshes {
					scopes = append(scopes, m.Name)
				}
			}
			for _, scope := range scopes {
				all, err := store.ListAll(r, k, store.Query{Scope: scope})
				if err != nil {
					return err
				}
				for _, res := range all {
					c.count(res)
				}
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	s := c.counter.state(nil, c.Options.Now().UTC())
	s.revision, s.marks = revision, marks
	c.listed.Store(c.counter.listed)
	c.publish(s)
	return revision, nil
}
