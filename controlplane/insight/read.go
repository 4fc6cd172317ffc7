package insight

import (
	"context"
	"slices"
	"time"
)

// Read returns the current insight of a dataplane, or false if it was never seen. The result
// does not change any more. The caller must not change what its pointers refer to. The error
// is that of ctx.
func (s *Insights) Read(ctx context.Context, mesh, dataplane string) (*DataplaneInsight, bool, error) {
	if err := ctx.Err(); err != nil {
		return nil, false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	in := s.proxies[id{mesh, dataplane}].insight()
	return in, in != nil, nil
}

// List returns the insights of a mesh by dataplane. Otherwise it is like Read.
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

// IssuedBackends returns the authority backend that signed the certificate of each dataplane
// of a mesh. Dataplanes without a certificate, or with an expired one, are omitted.
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
	return m != nil && s.after(m.CertificateExpirationTime, m.CertificateExpirationTime.Sub(m.LastCertificateRegeneration))
}

// after reports whether an end has not come of what has a life.
func (s *Insights) after(end time.Time, life time.Duration) bool { return end.After(s.Past(life)) }

// holds reports whether any certificate of a record has not ended. The newest may not have
// arrived, so that an earlier one counts that ends later.
func (s *Insights) holds(p *proxy) bool {
	e := p.facts.Earlier
	return s.lives(p.mtls) || e != nil && s.after(e.Expires, e.Life)
}

// MayHold reports whether a proxy may hold a certificate that has not ended. life is the
// longest life of certificates.
//
// Until this process has run for a life, a missing record proves nothing: the last
// certificates of the previous process may not have been recorded when it was killed, and a
// restored backup does not know what was issued later. Records are complete only for a
// Dataplane that was created since.
func (s *Insights) MayHold(mesh, dataplane string, life time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.proxies[id{mesh, dataplane}]
	if p != nil && (p.created || s.holds(p)) {
		return s.holds(p)
	}
	return s.Now().Sub(s.began) < life
}

// insight copies a record. It returns nil for an empty one.
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
