package gateway

import (
	"strings"

	"github.com/meshgate/meshgate/controlplane/model"
)

// Kinds of upstreams and certificates.
var (
	Upstreams = &model.Kind{
		Name: "upstream", Path: "upstreams", Scoping: model.ControlPlane, Class: model.Config,
		Secrets: []string{"/healthchecks/active/headers"}, // Authorization may be one
		New:     func() any { return new(Upstream) }, Schema: upstreamSchema,
		Lists:  []model.ListIndex{listed(IndexTags, func(e *Upstream) []string { return e.Tags })},
		Unique: []model.Index{{Name: IndexName, Value: field(func(u *Upstream) string { return strings.ToLower(u.Name) })}},
		Refs: []model.Ref{{
			Name: RefClientCertificate, To: "certificate", OnDelete: model.Refuse, Target: field(func(u *Upstream) string { return u.ClientCertificate }),
		}},
	}
	Targets = &model.Kind{
		Name: "target", Path: "targets", Scoping: model.ControlPlane, Class: model.Config,
		New: func() any { return new(UpstreamTarget) }, Schema: targetSchema,
		Lists: []model.ListIndex{listed(IndexTags, func(e *UpstreamTarget) []string { return e.Tags })},
		Unique: []model.Index{{Name: IndexTarget, Value: func(spec any) (string, bool) {
			t := spec.(*UpstreamTarget)
			return t.Upstream + " " + t.Address(), true
		}}},
		Refs: []model.Ref{{Name: RefUpstream, To: "upstream", OnDelete: model.Cascade, Target: field(func(t *UpstreamTarget) string { return t.Upstream })}},
	}
	Certificates = &model.Kind{
		Name: "certificate", Path: "certificates", Scoping: model.ControlPlane, Class: model.Config, Sealed: true,
		Secrets: []string{"/key", "/key_alt"},
		New:     func() any { return new(Certificate) }, Schema: certificateSchema,
		Lists: []model.ListIndex{listed(IndexTags, func(e *Certificate) []string { return e.Tags })},
	}
	SNIs = &model.Kind{
		Name: "sni", Path: "snis", Scoping: model.ControlPlane, Class: model.Config,
		New: func() any { return new(SNI) }, Schema: sniSchema,
		Lists:  []model.ListIndex{listed(IndexTags, func(e *SNI) []string { return e.Tags })},
		Unique: []model.Index{{Name: IndexName, Value: field((*SNI).Server)}},
		Refs:   []model.Ref{{Name: RefCertificate, To: "certificate", OnDelete: model.Cascade, Target: field(func(s *SNI) string { return s.Certificate })}},
	}
	CACertificates = &model.Kind{
		Name: "ca_certificate", Path: "ca_certificates", Scoping: model.ControlPlane, Class: model.Config,
		New: func() any { return new(CACertificate) }, Schema: caCertificateSchema,
		Lists:  []model.ListIndex{listed(IndexTags, func(e *CACertificate) []string { return e.Tags })},
		Unique: []model.Index{{Name: IndexDigest, Value: field(func(c *CACertificate) string { return c.CertDigest })}},
	}
)
