package server

import (
	"cmp"
	"encoding/hex"
	"slices"

	"github.com/meshgate/meshgate/xds/resource"
	"github.com/zeebo/xxh3"
)

// vector reports whether every response of the type must carry everything. This is the
// state-of-the-world rule for clusters and listeners; other types may be sent in parts.
func (s *session) vector(t *typed) bool {
	return s.sotw && t.wildcard && (t.url == resource.Cluster || t.url == resource.Listener)
}

// addVector sends everything that the proxy should have. It also repeats resources that are
// gone but not removed yet, because additions of every type but listeners go before removals
// here too. Their bytes come from what was sent before.
func (s *session) addVector(t *typed) *response {
	all := s.wanted(t)
	var changed []*resource.Resource
	for _, r := range all {
		if k, ok := t.known[r.Name]; !ok || k.version != r.Version {
			changed = append(changed, r)
		}
	}
	for name, k := range t.known {
		switch {
		case s.want(t, name) != nil || k.resource == nil:
		case t.url == resource.Listener: // see givingWay
			delete(t.known, name)
			t.forgive(name)
		default:
			all = append(all, k.resource)
		}
	}
	slices.SortFunc(all, func(a, b *resource.Resource) int { return cmp.Compare(a.Name, b.Name) })
	r := s.emit(t, &response{add: all, version: vectorVersion(all)})
	if t.url == resource.Cluster {
		s.accompany(changed)
	}
	return r
}

// vectorVersion returns the same version for the same content on every replica.
func vectorVersion(rs []*resource.Resource) string {
	h := xxh3.New()
	for _, r := range rs {
		_, _ = h.WriteString(r.Name)
		_, _ = h.Write([]byte{0})
		_, _ = h.WriteString(r.Version)
	}
	sum := h.Sum128().Bytes()
	return hex.EncodeToString(sum[:])
}

// resume recognises a returning proxy that already has the current vector.
func (s *session) resume(t *typed) {
	if !s.vector(t) || t.accepted == "" {
		return
	}
	all := s.wanted(t)
	slices.SortFunc(all, func(a, b *resource.Resource) int { return cmp.Compare(a.Name, b.Name) })
	if vectorVersion(all) != t.accepted {
		return
	}
	t.full = false
	for _, r := range all {
		t.known[r.Name] = held{version: r.Version, resource: r}
	}
}
