package insight

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// Issued records an identity that was given to a proxy. backend is the authority backend
// that signed it. An identity that is given again, to a proxy that came back, does not count
// as a further regeneration. An identity of an unknown node is not recorded: its dataplane
// was deleted while the identity was made, and nobody would delete the record.
func (s *Insights) Issued(mesh, dataplane, backend string, expires, at time.Time) {
	supported := []string{backend}
	if s.Backends != nil {
		supported = s.Backends(mesh)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.proxies[id{mesh, dataplane}]
	if p == nil || s.closed {
		return
	}
	n := uint32(1)
	if p.mtls != nil && p.mtls.LastCertificateRegeneration.Equal(at) && p.mtls.CertificateExpirationTime.Equal(expires) {
		return
	}
	if p.mtls != nil {
		n += p.mtls.CertificateRegenerations
	}
	p.facts.Earlier = s.outlasting(p, expires)
	// A new value: readers may hold the old one.
	p.mtls = &MTLS{
		CertificateExpirationTime: expires.UTC(), LastCertificateRegeneration: at.UTC(),
		CertificateRegenerations: n, IssuedBackend: backend, SupportedBackends: slices.Clone(supported),
	}
	s.changed(id{mesh, dataplane}, p, false)
	s.tell(id{mesh, dataplane})
	s.move()
}

// outlasting returns of the certificates that a proxy was given before what ends after a new
// one; nil if none does. That the new one was given does not say that it arrived.
func (s *Insights) outlasting(p *proxy, expires time.Time) *earlier {
	e := p.facts.Earlier
	if e != nil && !s.after(e.Expires, e.Life) {
		e = nil
	}
	if s.lives(p.mtls) && p.mtls.CertificateExpirationTime.After(expires) {
		last := &earlier{p.mtls.CertificateExpirationTime, p.mtls.CertificateExpirationTime.Sub(p.mtls.LastCertificateRegeneration)}
		if e != nil {
			last.Life = max(last.Life, e.Life)
			if e.Expires.After(last.Expires) {
				last.Expires = e.Expires
			}
		}
		e = last
	}
	return e
}

// Described records what a proxy says about itself in the metadata of its node. It belongs
// to the open subscription and to later ones. The caller has authenticated the node.
func (s *Insights) Described(node string, v Versions) {
	at, ok := parse(node)
	if !ok {
		return
	}
	v = v.bounded()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	p := s.proxy(at)
	p.versions = &v
	if n := len(p.subscriptions); n > 0 && p.subscriptions[n-1].DisconnectTime == nil {
		p.subscriptions[n-1].Version = &v
		s.changed(at, p, false)
		s.tell(at)
	}
}

// Forget deletes the insight of a dataplane that was deleted. If its proxy is still
// connected, the insight stays until the stream ends.
func (s *Insights) Forget(mesh, dataplane string) {
	at := id{mesh, dataplane}
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.proxies[at]
	if p == nil || s.closed {
		return
	}
	s.changed(at, p, true)
	switch {
	case p.streams > 0:
		p.forgotten = true
	case !p.orphan:
		s.depart(at, p)
	}
}

// Created records that the dataplane of a node was created while this process ran. The node
// is expected from now on. One that was seen before counts as created no more than before,
// because what its proxy was given may have no record. See [Insights.MayHold].
func (s *Insights) Created(mesh, dataplane string) {
	at := id{mesh, dataplane}
	s.mu.Lock()
	seen := s.proxies[at] != nil
	s.mu.Unlock()
	s.Expect(at.node())
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.proxies[at]; p != nil && !seen {
		p.created = true
	}
}

// Recall records that a forgotten dataplane exists again. The insight of its proxy, which
// stayed connected, is then kept.
func (s *Insights) Recall(mesh, dataplane string) {
	at := id{mesh, dataplane}
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.proxies[at]; p != nil && p.forgotten && !s.closed {
		p.forgotten = false
		s.changed(at, p, false)
	}
}

// Prune forgets the dataplanes that do not exist. It is called once the meshes are known,
// for dataplanes that were deleted while the control plane was down.
func (s *Insights) Prune(exists func(mesh, dataplane string) bool) {
	s.mu.Lock()
	all := slices.Collect(maps.Keys(s.proxies))
	s.mu.Unlock()
	for _, at := range all {
		if !at.gateway() && !exists(at.mesh, at.name) {
			s.Forget(at.mesh, at.name)
		}
	}
}

func (v Versions) bounded() Versions {
	v.MeshDP.Version, v.MeshDP.GitTag = cut(v.MeshDP.Version, maxVersion), cut(v.MeshDP.GitTag, maxVersion)
	v.MeshDP.GitCommit, v.MeshDP.BuildDate = cut(v.MeshDP.GitCommit, maxVersion), cut(v.MeshDP.BuildDate, maxVersion)
	v.Proxy.Version, v.Proxy.Build = cut(v.Proxy.Version, maxVersion), cut(v.Proxy.Build, maxVersion)
	given := v.Dependencies
	v.Dependencies = nil
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if len(v.Dependencies) == maxDependencies {
			break
		}
		if v.Dependencies == nil {
			v.Dependencies = map[string]string{}
		}
		v.Dependencies[cut(name, maxVersion)] = cut(given[name], maxVersion)
	}
	return v
}

// cut shortens a text of unknown origin to n bytes of valid UTF-8. The result does not keep
// the memory of the original text alive.
func cut(s string, n int) string {
	return strings.ToValidUTF8(strings.Clone(s[:min(len(s), n)]), "")
}
