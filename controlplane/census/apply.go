package census

import (
	"context"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/insight"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// shares replace the share of a resource of whose kind more counts than that it exists and what lists
// need; nil takes it away. Of one that cannot be read nothing else is known.
var shares = map[*model.Kind]func(*Census, model.Key, *model.Resource){
	mesh.Meshes: (*Census).mesh, mesh.Dataplanes: (*Census).dataplane, mesh.ExternalServices: (*Census).externalService,
	mesh.Zones: (*Census).ofZone, mesh.ZoneIngresses: (*Census).ofZone, mesh.ZoneEgresses: (*Census).ofZone,
}

// apply replaces the share of the resource of an event. Of kinds whose content counts, the state
// of r decides, which may be newer; later events then change nothing.
func (c *Census) apply(r store.Reader, e store.Event) error {
	k := c.counter.of[e.Key.Kind]
	share := shareOfKind(k)
	if share == nil {
		c.counter.exists(e.Key, e.Op != store.Deleted)
		return nil
	}
	res, err := r.Get(k, e.Key.Scope, e.Key.Name)
	switch unread := store.UnreadIn(err); {
	case unread != nil:
		res = unread
	case fault.Is(err, fault.NotFound):
		res = nil
	case err != nil:
		return err
	}
	share(c, e.Key, res)
	return nil
}

// shareOfKind returns the function for a kind, nil if nothing counts but that its resources exist.
func shareOfKind(k *model.Kind) func(*Census, model.Key, *model.Resource) {
	if share := shares[k]; share != nil || !Lists(k) {
		return share
	}
	return (*Census).ofMesh
}

// count replaces the share of a resource that exists.
func (c *Census) count(res *model.Resource) {
	if share := shareOfKind(res.Kind); share != nil {
		share(c, res.Key(), res)
		return
	}
	c.counter.exists(res.Key(), true)
}

func (c *Census) mesh(key model.Key, res *model.Resource) {
	if res == nil {
		c.counter.meshed(key.Name, false, time.Time{})
		return
	}
	c.counter.meshed(key.Name, true, res.Created.UTC())
}

// ofMesh is for what belongs to a mesh and is counted and listed alone.
func (c *Census) ofMesh(key model.Key, res *model.Resource) {
	c.counter.exists(key, res != nil)
	c.list(key, res, nil)
}

// list notes what lists need of a resource; nil takes it away.
func (c *Census) list(key model.Key, res *model.Resource, in *insight.DataplaneInsight) {
	var l *Listed
	if res != nil {
		l = listedOf(res, in)
	}
	c.counter.listed[c.counter.of[key.Kind]].put(key.Scope, key.Name, l)
}

func (c *Census) dataplane(key model.Key, res *model.Resource) {
	if res == nil {
		c.counter.dataplane(key, nil)
		c.list(key, nil, nil)
		return
	}
	d, _ := res.Spec.(*mesh.Dataplane)
	in := c.Insight(key.Scope, key.Name)
	c.counter.dataplane(key, shareOf(d, in))
	c.list(key, res, in)
}

func (c *Census) externalService(key model.Key, res *model.Resource) {
	if res == nil {
		c.counter.external(key, nil, false)
		c.list(key, nil, nil)
		return
	}
	x, _ := res.Spec.(*mesh.ExternalService)
	c.counter.external(key, x, true)
	c.list(key, res, nil)
}

// ofZone is for zones and their proxies.
func (c *Census) ofZone(key model.Key, res *model.Resource) {
	if res == nil {
		c.counter.zoned(key, false, false, false)
		return
	}
	z, readable := res.Spec.(*mesh.Zone)
	c.counter.zoned(key, true, c.Online(res.Kind, key.Name), readable && z.IsEnabled())
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
	c.listed.Store(&c.counter.listed)
	c.publish(s)
	return revision, nil
}
