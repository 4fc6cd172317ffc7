package sidecar

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/meshgate/meshgate/controlplane/mesh"
)

// byName ends the names of clusters that resolve names.
const byName = apart + "by-name"

// want is a cluster as an outbound would have it: by the name that its tags give
// it, with a version that stands for all its settings.
type want struct{ name, version string }

// renames are the clusters of an outbound that bear other names than their own:
// lines of a name, a tab and the other name. It is a text, so that it can be part
// of keys; mostly it is empty.
type renames string

// of is the name that a cluster bears.
func (r renames) of(name string) string {
	for line := range strings.Lines(string(r)) {
		if plain, other, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t"); plain == name {
			return other
		}
	}
	return name
}

// and adds a cluster, if its name is another than its own.
func (r renames) and(plain, other string) renames {
	if plain == other {
		return r
	}
	return r + renames(plain+"\t"+other+"\n")
}

// cluster is the name of the cluster of a destination.
func (r renames) cluster(tags mesh.Tags) string { return r.of(ClusterName(tags)) }

// tellApart gives the clusters of a reach that have one name and several settings
// a name for each. The outbound to the very service keeps the plain one, of others
// the first; the rest is named after the outbound that is the first to want it. It
// returns the outbounds for which that changes something.
func (r *reach) tellApart() (moved []*outbound) {
	names := map[string]map[string]string{} // by plain name and version
	for _, own := range []bool{true, false} {
		for _, o := range r.outbounds {
			for _, w := range o.wants {
				if own && strings.TrimSuffix(w.name, byName) != ClusterName(o.shape.Tags) {
					continue
				}
				if names[w.name] == nil {
					names[w.name] = map[string]string{w.version: w.name}
				} else if names[w.name][w.version] == "" {
					names[w.name][w.version] = besides(w.name, o.tags)
				}
			}
		}
	}
	for _, o := range r.outbounds {
		if other := renamed(o.wants, names); other != o.renamed {
			o.renamed = other
			moved = append(moved, o)
		}
	}
	return moved
}

func renamed(wants []want, names map[string]map[string]string) renames {
	var lines []string
	for _, w := range wants {
		if other := names[w.name][w.version]; other != w.name {
			lines = append(lines, string(renames("").and(w.name, other)))
		}
	}
	slices.Sort(lines)
	return renames(strings.Join(lines, ""))
}

// besides names a cluster that an outbound wants by settings of its own.
func besides(name, outbound string) string {
	sum := sha256.Sum256([]byte(outbound))
	return name + apart + "for-" + hex.EncodeToString(sum[:8])
}
