// Package gateway holds the kinds of the gateway (services, routes, plugins,
// consumers, applications, tokens), their rules, and the pure decisions about
// them: which route wins and which plugins are effective.
package gateway

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"

	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/filter/contract"
)

// Names of indexes.
const (
	IndexName         = "name"
	IndexInstanceName = "instance_name"
	IndexUsername     = "username"
	IndexCustomID     = "custom_id"
	IndexClientID     = "client_id"
	IndexClientSecret = "client_secret"
	IndexRefreshToken = "refresh_token"
	// IndexAccessToken holds [TokenKey] of the access token.
	IndexAccessToken = "access_token"
	// IndexCode and IndexSpent hold the code, and [TokenKey] of what was spent.
	IndexCode  = "code"
	IndexSpent = "value"
	// IndexKey holds [KeyAuthKey] of an API key.
	IndexKey = "key"
	// IndexTags lists resources by each of their tags.
	IndexTags = "tags"
	// IndexHost lists services by their host in lower case, which may be the name
	// of an upstream.
	IndexHost = "host"
	// IndexAnonymous lists plugin instances by the consumer that they let pass
	// without credentials.
	IndexAnonymous = "anonymous"
	// IndexFamily lists tokens by family, IndexUser tokens and codes by end user.
	IndexFamily = "family"
	IndexUser   = "authenticated_userid"
	// IndexTarget makes a plugin instance unique for (name, route, service,
	// consumer), and a target of an upstream for (upstream, target).
	IndexTarget = "target"
	// IndexDigest makes the certificate of an authority unique.
	IndexDigest = "cert_digest"

	RefConsumer   = "consumer"
	RefService    = "service"
	RefRoute      = "route"
	RefCredential = "credential"
	RefPlugin     = "plugin"
	RefUpstream   = "upstream"
	// RefCertificate is the certificate of an SNI, RefClientCertificate that which
	// a service or upstream is shown, HoldAuthorities the authorities of a service.
	RefCertificate       = "certificate"
	RefClientCertificate = "client_certificate"
	HoldAuthorities      = "ca_certificates"
)

// TokenKey is the value under which an access token is found in its index: the
// SHA-256 of the token in lower-case hex, which is all that a filter knows of it.
func TokenKey(accessToken string) string {
	h := sha256.Sum256([]byte(accessToken))
	return hex.EncodeToString(h[:])
}

// KeyAuthKey is the value under which an API key is found in its index: what a
// filter knows of it (contract.HashKey), in lower-case hex.
func KeyAuthKey(key string) string {
	h := contract.HashKey([]byte(key))
	return hex.EncodeToString(h[:])
}

// at reads a moment in milliseconds of Unix time; zero for 0, which is never.
func at(ms int64) time.Time {
	if ms <= 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

// listed builds a list index over texts of a spec.
func listed[T any](name string, values func(*T) []string) model.ListIndex {
	return model.ListIndex{Name: name, Values: func(spec any) []string { return values(spec.(*T)) }}
}

// one is the list of a text, or of nothing if it is empty.
func one(s string) []string {
	if s == "" {
		return nil
	}
	return []string{s}
}

// Kinds of the gateway. Their fields, and most of how they are found, follow from the
// tags of their specs.
var (
	Services = rules.Describe(Service{}, model.Kind{
		Name: "service", Path: "services", Scoping: model.ControlPlane, Class: model.Config, Schema: serviceSchema,
		Lists: []model.ListIndex{listed(IndexHost, func(s *Service) []string { return one(strings.ToLower(s.Host)) })},
	})
	Routes = rules.Describe(Route{}, model.Kind{
		Name: "route", Path: "routes", Scoping: model.ControlPlane, Class: model.Config, Schema: routeSchema,
	})
	Plugins = pluginRules.Describe(Plugin{}, model.Kind{
		Name: "plugin", Path: "plugins", Scoping: model.ControlPlane, Class: model.Config, Sealed: true, Schema: pluginSchema,
		Secrets: []string{"/config/provision_key"},
		Unique: []model.Index{{Name: IndexTarget, Value: func(spec any) (string, bool) {
			p := spec.(*Plugin)
			return p.Name + " " + p.Route + " " + p.Service + " " + p.Consumer, true
		}}},
		Lists: []model.ListIndex{listed(IndexAnonymous, func(p *Plugin) []string { return one(p.AnonymousConsumer()) })},
	})
	Consumers = rules.Describe(Consumer{}, model.Kind{
		Name: "consumer", Path: "consumers", Scoping: model.ControlPlane, Class: model.Credential, Schema: consumerSchema,
		Announce: model.AnnounceAll,
		Guards: []model.Guard{{
			By: Plugins, Index: IndexAnonymous, Field: "config.anonymous",
			Texts: func(r *model.Resource) []string {
				return append(one(r.Spec.(*Consumer).Username), r.Name)
			},
		}},
	})
	Applications = rules.Describe(Application{}, model.Kind{
		Name: "oauth2_credential", Path: "oauth2", Scoping: model.ControlPlane, Class: model.Credential, Sealed: true, Schema: applicationSchema,
		Secrets: []string{"/client_secret", "/secondary_secret"},
		// Hashed secrets are exempt: nobody knows whether two are equal.
		Unique: []model.Index{{Name: IndexClientSecret, Secret: true, Value: func(spec any) (string, bool) {
			a := spec.(*Application)
			return a.ClientSecret, a.ClientSecret != "" && !a.HashSecret
		}}},
	})
	Tokens = rules.Describe(Token{}, model.Kind{
		Name: "oauth2_token", Path: "oauth2_tokens", Scoping: model.ControlPlane, Class: model.Credential, Sealed: true, Schema: tokenSchema,
		Secrets: []string{"/access_token", "/refresh_token"},
		Expires: func(spec any) time.Time { return at(spec.(*Token).DropAt) },
	})
	// Codes and SpentValues are no entities of an API.
	Codes = rules.Describe(Code{}, model.Kind{
		Name: "oauth2_code", Path: "oauth2-codes", Scoping: model.ControlPlane, Class: model.Credential,
		Announce: model.AnnounceNone, ReadOnly: true, Sealed: true,
		Expires: func(spec any) time.Time { return at(spec.(*Code).DropAt) },
	})
	SpentValues = rules.Describe(Spent{}, model.Kind{
		Name: "oauth2_spent", Path: "oauth2-spent", Scoping: model.ControlPlane, Class: model.Credential,
		Announce: model.AnnounceNone, ReadOnly: true,
		Expires: func(spec any) time.Time { return at(spec.(*Spent).DropAt) },
	})
	Keys = rules.Describe(Key{}, model.Kind{
		Name: "keyauth_credential", Path: "key-auths", Scoping: model.ControlPlane, Class: model.Credential, Sealed: true, Schema: keySchema,
		Secrets: []string{"/key"},
		Expires: func(spec any) time.Time { return at(spec.(*Key).DropAt) },
	})
	Upstreams = rules.Describe(Upstream{}, model.Kind{
		Name: "upstream", Path: "upstreams", Scoping: model.ControlPlane, Class: model.Config, Schema: upstreamSchema,
		Secrets: []string{"/healthchecks/active/headers"}, // Authorization may be one
	})
	Targets = rules.Describe(UpstreamTarget{}, model.Kind{
		Name: "target", Path: "targets", Scoping: model.ControlPlane, Class: model.Config, Schema: targetSchema,
		Unique: []model.Index{{Name: IndexTarget, Value: func(spec any) (string, bool) {
			t := spec.(*UpstreamTarget)
			return t.Upstream + " " + t.Address(), true
		}}},
	})
	Certificates = rules.Describe(Certificate{}, model.Kind{
		Name: "certificate", Path: "certificates", Scoping: model.ControlPlane, Class: model.Config, Sealed: true, Schema: certificateSchema,
		Secrets: []string{"/key", "/key_alt"},
	})
	SNIs = rules.Describe(SNI{}, model.Kind{
		Name: "sni", Path: "snis", Scoping: model.ControlPlane, Class: model.Config, Schema: sniSchema,
	})
	CACertificates = rules.Describe(CACertificate{}, model.Kind{
		Name: "ca_certificate", Path: "ca_certificates", Scoping: model.ControlPlane, Class: model.Config, Schema: caCertificateSchema,
	})
)

// Kinds lists the kinds of the gateway.
func Kinds() []*model.Kind {
	return []*model.Kind{
		Services, Routes, Plugins, Consumers, Applications, Tokens, Codes, SpentValues, Keys,
		Upstreams, Targets, Certificates, SNIs, CACertificates, Instances,
	}
}

// Instances is the kind of gateway instances, named like their node tokens. It
// is written when an instance enrols and remembers what its listeners are,
// so that the control plane can configure it again after a restart.
var Instances = &model.Kind{
	Name: "gateway_instance", Path: "gateway-instances", Scoping: model.ControlPlane,
	Class: model.Credential, Announce: model.AnnounceNone, ReadOnly: true,
	New: func() any { return new(Instance) },
}

// Instance is one gateway Envoy.
type Instance struct {
	// Listen is the IP address of its listeners.
	Listen string `json:"listen"`
	// HTTPPort and HTTPSPort are the ports of its listeners.
	HTTPPort  int `json:"http_port"`
	HTTPSPort int `json:"https_port"`
	// ControlPlane is host:port at which the instance reaches the data-plane
	// server, where the OAuth server is too.
	ControlPlane string `json:"control_plane"`
	// RootsFile is the instance's own PEM bundle of public authorities, or empty.
	RootsFile string `json:"roots_file,omitempty"`
}
