package census

import (
	"encoding/json"
	"strings"
	"sync"

	"github.com/meshgate/meshgate/controlplane/insight"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// Listed is what lists are filtered by, of a resource. It never changes.
type Listed struct {
	Name string
	// Traits are shared by all resources of the kind with the same ones, so that a filter need not look
	// at them twice.
	Traits *Traits
	// Known says that something is known about the proxy of a dataplane.
	Known bool
	// Unread says why the row cannot be read, nil if it can. Then nothing else is known of it.
	Unread error
}

// Traits are what many resources may have in common.
type Traits struct {
	// Tags are those of the gateway and of each inbound of a dataplane, or of an ExternalService. Other
	// kinds have none.
	Tags []mesh.Tags
	// Gateway is the type of the gateway of a dataplane, empty for none.
	Gateway string
	// Labels are those of the resource.
	Labels map[string]string

	key   string
	users int
}

// listedOf returns what lists need of a row.
func listedOf(res *model.Resource, in *insight.DataplaneInsight) *Listed {
	l := &Listed{Name: res.Name, Known: in != nil, Traits: &Traits{Labels: model.LabelsOf(res.Spec)}}
	switch spec := res.Spec.(type) {
	case *mesh.Dataplane:
		l.Traits.Tags, l.Traits.Gateway = spec.TagSets(), spec.GatewayType()
	case *mesh.ExternalService:
		l.Traits.Tags = spec.TagSets()
	case *store.Unread:
		l.Unread = spec.Why
	}
	return l
}

// Lists reports whether a census can search the resources of a kind, which is one of those that it
// counts: all that belong to a mesh, of which there may be very many.
func Lists(k *model.Kind) bool { return k.Document != nil && k.Scoping == model.Mesh }

// directories are those of the listed kinds.
type directories map[*model.Kind]*directory

func newDirectories(counted map[string]*model.Kind) directories {
	all := directories{}
	for _, k := range counted {
		if Lists(k) {
			all[k] = newDirectory()
		}
	}
	return all
}

// directory holds all resources of a kind of each mesh. So a filtered list reads and decodes nothing but its
// page.
type directory struct {
	mu     sync.Mutex
	meshes map[string]*roll
	// traits are those of all resources, by their text.
	traits map[string]*Traits
}

func newDirectory() *directory {
	return &directory{meshes: map[string]*roll{}, traits: map[string]*Traits{}}
}

// share returns the traits that others have already, if any have them.
func (d *directory) share(t *Traits) *Traits {
	text, _ := json.Marshal(t) // all that is exported: texts, and maps of them, with sorted keys
	t.key = string(text)
	if have := d.traits[t.key]; have != nil {
		t = have
	}
	d.traits[t.key] = t
	t.users++
	return t
}

// leave says that a resource has these traits no more.
func (d *directory) leave(t *Traits) {
	if t.users--; t.users == 0 {
		delete(d.traits, t.key)
	}
}

// put adds or replaces a resource; nil takes it away.
func (d *directory) put(meshName, name string, l *Listed) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if l != nil {
		l.Traits = d.share(l.Traits)
	}
	list := d.meshes[meshName]
	if list == nil {
		list = &roll{}
		d.meshes[meshName] = list
	}
	if old := list.put(name, l); old != nil {
		d.leave(old.Traits)
	}
	if len(list.blocks) == 0 {
		delete(d.meshes, meshName)
	}
}

// known notes whether anything is known about the proxy of a dataplane that exists.
func (d *directory) known(meshName, name string, is bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	list := d.meshes[meshName]
	if list == nil {
		return
	}
	if at, row, found := list.find(name); found && list.blocks[at].rows[row].Known != is {
		l := *list.blocks[at].rows[row]
		l.Known = is
		list.put(name, &l)
	}
}

func byName(l *Listed, name string) int { return strings.Compare(l.Name, name) }

// read returns the resources of meshes as they are now.
func (d *directory) read(meshes []string) [][]*block {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := make([][]*block, len(meshes))
	for i, name := range meshes {
		if list := d.meshes[name]; list != nil {
			out[i] = list.read()
		}
	}
	return out
}
