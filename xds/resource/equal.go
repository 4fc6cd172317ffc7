package resource

import (
	"encoding/binary"
	"iter"
	"maps"
)

// Each yields the resources of a type in no order, without building a list.
func (s *Set) Each(t TypeURL) iter.Seq[*Resource] {
	return s.Table(t).all()
}

// Equal reports whether two sets hold the same bytes under the same names and allow the same
// secrets in the same generations.
func (s *Set) Equal(o *Set) bool {
	if s == o {
		return true
	}
	for _, t := range Types {
		if !s.Table(t).Same(o.Table(t)) {
			return false
		}
	}
	return sameSecrets(s, o)
}

func sameSecrets(a, b *Set) bool {
	var x, y map[string]string
	if a != nil {
		x = a.secrets
	}
	if b != nil {
		y = b.secrets
	}
	return maps.Equal(x, y)
}

// Empty returns the assignment of a cluster without endpoints. It stands for a removal,
// because a proxy ignores the removal of an assignment. The bytes are field 1 (cluster_name)
// of envoy.config.endpoint.v3.ClusterLoadAssignment.
func Empty(cluster string) *Resource {
	body := append([]byte{1<<3 | 2}, binary.AppendUvarint(nil, uint64(len(cluster)))...)
	return New(Endpoint, cluster, append(body, cluster...))
}
