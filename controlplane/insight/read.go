package insight

import (
	"context"
	"slices"
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
	now, out := s.Now(), map[string]string{}
	for at, p := range s.proxies {
		if at.mesh == mesh && p.mtls != nil && p.mtls.CertificateExpirationTime.After(now) {
			out[at.name] = p.mtls.IssuedBackend
		}
	}
	return out, nil
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
