package insight

import (
	"context"
	"slices"
	"time"
)

// Read returns the insight of a dataplane as it is now; false if it was never
// seen. What it returns does not change any more, and what its pointers lead to
// is not to be changed. The error is that of ctx.
func (s *Insights) Read(ctx context.Context, mesh, dataplane string) (*DataplaneInsight, bool, error) {
	if err := ctx.Err(); err != nil {
		return nil, false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	in := s.proxies[id{mesh, dataplane}].insight()
	return in, in != nil, nil
}

// List returns the insights of a mesh by dataplane; otherwise as Read.
func (s *Insights) List(ctx context.Context, mesh string) (map[string]*DataplaneInsight, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]*DataplaneInsight{}
	for at, p := range s.proxies {
		if at.mesh != mesh {
			continue
		}
		if in := p.insight(); in != nil {
			out[at.name] = in
		}
	}
	return out, nil
}

// IssuedBackends tells which authority backend signed the certificate that each
// dataplane of a mesh holds. Dataplanes without one, and those whose certificate
// has expired, are left out.
func (s *Insights) IssuedBackends(ctx context.Context, mesh string) (map[string]string, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]string{}
	for at, p := range s.proxies {
		if at.mesh == mesh && s.lives(p.mtls) {
			out[at.name] = p.mtls.IssuedBackend
		}
	}
	return out, nil
}

// lives reports whether a certificate has not ended.
func (s *Insights) lives(m *MTLS) bool {
	return m != nil && m.CertificateExpirationTime.After(s.Past(m.CertificateExpirationTime.Sub(m.LastCertificateRegeneration)))
}

// MayHold reports whether a proxy may hold a certificate that has not ended. life is the
// longest that certificates live.
//
// No record says nothing until this process has run for a life: what the one before has
// issued last may not have been written when it was killed, and a restored backup does
// not know what was issued after it. Only of a Dataplane that was created since is
// everything known.
func (s *Insights) MayHold(mesh, dataplane string, life time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.proxies[id{mesh, dataplane}]
	if p != nil && (p.created || s.lives(p.mtls)) {
		return s.lives(p.mtls)
	}
	return s.Now().Sub(s.began) < life
}

// insight copies a record; nil if there is nothing in it.
func (p *proxy) insight() *DataplaneInsight {
	if p == nil || len(p.subscriptions) == 0 && p.mtls == nil {
		return nil
	}
	in := &DataplaneInsight{Subscriptions: make([]Subscription, 0, len(p.subscriptions))}
	for _, sub := range p.subscriptions {
		in.Subscriptions = append(in.Subscriptions, sub.clone())
	}
	if p.mtls != nil {
		m := *p.mtls
		m.SupportedBackends = slices.Clone(m.SupportedBackends)
		in.MTLS = &m
	}
	return in
}
