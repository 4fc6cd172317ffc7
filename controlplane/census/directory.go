package census

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/meshgate/meshgate/controlplane/insight"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// Listed is what lists of dataplanes are filtered by. It never changes.
type Listed struct {
	Name string
	// Tags are those of the gateway and of each inbound.
	Tags []mesh.Tags
	// Gateway is the type of the gateway, empty for none.
	Gateway string
	// Known says that something is known about the proxy.
	Known bool
	// Unread says why the row cannot be read, nil if it can. Then nothing else is known of it.
	Unread error
}

// listedOf returns what lists need of a row.
func listedOf(res *model.Resource, in *insight.DataplaneInsight) *Listed {
	l := &Listed{Name: res.Name, Known: in != nil}
	switch spec := res.Spec.(type) {
	case *mesh.Dataplane:
		l.Tags, l.Gateway = spec.TagSets(), spec.GatewayType()
	case *store.Unread:
		l.Unread = spec.Why
	}
	return l
}

// directory holds all dataplanes of each mesh, sorted by name. So a filtered list reads and decodes
// nothing but its page.
type directory struct {
	mu     sync.RWMutex
	meshes map[string][]*Listed
}

// put adds or replaces a dataplane; nil takes it away.
func (d *directory) put(meshName, name string, l *Listed) {
	d.mu.Lock()
	defer d.mu.Unlock()
	list := d.meshes[meshName]
	i, found := slices.BinarySearchFunc(list, name, byName)
	switch {
	case found && l == nil:
		list = slices.Delete(list, i, i+1)
	case found:
		list[i] = l
	case l != nil:
		list = slices.Insert(list, i, l)
	}
	if d.meshes[meshName] = list; len(list) == 0 {
		delete(d.meshes, meshName)
	}
}

// known notes whether anything is known about the proxy of a dataplane that exists.
func (d *directory) known(meshName, name string, is bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	list := d.meshes[meshName]
	if i, found := slices.BinarySearchFunc(list, name, byName); found && list[i].Known != is {
		l := *list[i]
		l.Known = is
		list[i] = &l
	}
}

func byName(l *Listed, name string) int { return strings.Compare(l.Name, name) }

// Dataplanes calls f for each dataplane of the meshes, in their order and then by name, as they are
// after everything that had happened when it was called. f must not wait for anybody. The error is
// that of [Census.Now].
func (c *Census) Dataplanes(ctx context.Context, meshes []string, f func(meshName string, l *Listed)) error {
	if _, _, err := c.Now(ctx); err != nil {
		return err
	}
	d := c.listed.Load()
	d.mu.RLock()
	defer d.mu.RUnlock()
	for _, name := range meshes {
		for _, l := range d.meshes[name] {
			f(name, l)
		}
	}
	return nil
}
