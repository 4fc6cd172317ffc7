package explain

import (
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/inspect/interpret"
	"github.com/meshgate/meshgate/xds/naming"
	"github.com/meshgate/meshgate/xds/resource"
)

// Names lists the URIs in the certificate of a dataplane, as the authority of a mesh writes them:
// each service, and each value of each tag, sorted.
func Names(meshName string, d *mesh.Dataplane) []string {
	names := map[string]bool{}
	for _, tags := range d.TagSets() {
		for key, value := range tags {
			names[mesh.TagURI(key, value)] = true
			if key == mesh.TagService {
				names[mesh.SPIFFE(meshName, value)] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// resolve looks a host name up as the resolver of the proxy does. A name that the mesh does not
// know is an Unsaid: whoever else knows it says where it is.
func (w *walk) resolve(p *interpret.Proxy, host string) (netip.Addr, error) {
	if r := p.Set.Get(resource.Cluster, naming.Cluster); r != nil {
		table, err := naming.Decode(r.Body)
		if err != nil {
			return netip.Addr{}, err
		}
		if a, ok := table[strings.ToLower(strings.TrimSuffix(host, "."))]; ok {
			return a, nil
		}
	}
	return netip.Addr{}, &interpret.Unsaid{What: "the mesh does not know the name " + host}
}
