package relay

import (
	"cmp"
	"maps"
	"slices"

	"github.com/meshgate/meshgate/xds/resource"
)

// table is a mutable set of resources by type and name.
type table map[resource.TypeURL]map[string]*resource.Resource

func (t table) put(r *resource.Resource) {
	if t[r.Type] == nil {
		t[r.Type] = map[string]*resource.Resource{}
	}
	t[r.Type][r.Name] = r
}

func (t table) drop(url resource.TypeURL, name string) { delete(t[url], name) }

// replace puts own in the place of x. nil takes x away.
func (t table) replace(x, own *resource.Resource) {
	if own == nil {
		t.drop(x.Type, x.Name)
		return
	}
	t.put(own)
}

// all lists the resources in a stable order.
func (t table) all() []*resource.Resource {
	var out []*resource.Resource
	for _, url := range resource.Types {
		out = append(out, t.of(url)...)
	}
	return out
}

// of lists the resources of a type by name.
func (t table) of(url resource.TypeURL) []*resource.Resource {
	out := make([]*resource.Resource, 0, len(t[url]))
	for _, name := range slices.Sorted(maps.Keys(t[url])) {
		out = append(out, t[url][name])
	}
	return out
}

// named lists the resources of a type of which the names are wanted, by name.
func (t table) named(url resource.TypeURL, wanted func(name string) bool) []*resource.Resource {
	var out []*resource.Resource
	for name, r := range t[url] {
		if wanted(name) {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b *resource.Resource) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// bytes returns the total size of all bodies.
func (t table) bytes() (n int64) {
	for _, rs := range t {
		for _, r := range rs {
			n += int64(len(r.Body))
		}
	}
	return n
}

// set returns the table as an immutable set. Secrets are contained with their bytes, so they
// have no generations.
func (t table) set() *resource.Set {
	secrets := make(map[string]string, len(t[resource.Secret]))
	for name := range t[resource.Secret] {
		secrets[name] = ""
	}
	return resource.NewSet(t.all(), secrets)
}

// unconfirmed stands for a version that no resource has. The server sends such a resource
// again, or removes it if it is gone.
const unconfirmed = "unconfirmed"

// versions returns what to tell a server on reconnecting: everything that is here or was
// confirmed by Envoy. It contains a version only where the two are the same.
func versions(current, good table, url resource.TypeURL) map[string]string {
	out := make(map[string]string, len(current[url]))
	for name := range current[url] {
		out[name] = unconfirmed
	}
	for name, r := range good[url] {
		if now := current[url][name]; now != nil && now.Version == r.Version {
			out[name] = r.Version
		} else {
			out[name] = unconfirmed
		}
	}
	return out
}
