package sidecar

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/meshgate/meshgate/controlplane/mesh"
)

// byName ends the names of clusters that resolve names. Only the mark of a kind of destinations
// follows it.
const byName = apart + "by-name"

// want is a cluster as an outbound requires it: the name that follows from its tags, and a
// version that stands for all its settings.
type want struct{ name, version string }

// renames lists the clusters of an outbound with names other than their plain ones: lines of
// the plain name, a tab and the other name. It is a string so that it can be part of keys. It
// is usually empty.
type renames string

// of returns the actual name of a cluster.
func (r renames) of(name string) string {
	for line := range strings.Lines(string(r)) {
		if plain, other, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t"); plain == name {
			return other
		}
	}
	return name
}

// and adds a cluster, if its name differs from its plain name.
func (r renames) and(plain, other string) renames {
	if plain == other {
		return r
	}
	return r + renames(plain+"\t"+other+"\n")
}

// cluster returns the name of the cluster of a destination.
func (r renames) cluster(tags mesh.Tags) string { return r.of(ClusterName(tags)) }

// tellApart handles clusters of a reach that have one name but different settings; it gives
// each a name of its own. The outbound to the service itself keeps the plain name; if there is
// none, the first outbound does. The others are named after the first outbound that wants
// them. It returns the outbounds whose names change.
func (r *reach) tellApart() (moved []*outbound) {
	names := map[string]map[string]string{} // by plain name and version
	for _, own := range []bool{true, false} {
		for _, o := range r.outbounds {
			for _, w := range o.wants {
				if plain, _, _ := strings.Cut(w.name, byName); own && plain != ClusterName(o.shape.Tags) {
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

// besides returns the name of a cluster that an outbound wants with its own settings.
func besides(name, outbound string) string {
	sum := sha256.Sum256([]byte(outbound))
	return name + apart + "for-" + hex.EncodeToString(sum[:8])
}
