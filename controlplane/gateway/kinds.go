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

// field builds the accessor of an optional string of a spec.
func field[T any](get func(*T) string) func(any) (string, bool) {
	return func(spec any) (string, bool) {
		v := get(spec.(*T))
		return v, v != ""
	}
}

// Kinds of the gateway.
var (
	Services = &model.Kind{
		Name: "service", Path: "services", Scoping: model.ControlPlane, Class: model.Config,
		New: func() any { return new(Service) }, Schema: serviceSchema,
		Unique: []model.Index{{Name: IndexName, Value: field(func(s *Service) string { return s.Name })}},
		Lists: []model.ListIndex{
			listed(IndexTags, func(s *Service) []string { return s.Tags }),
			listed(IndexHost, func(s *Service) []string { return one(strings.ToLower(s.Host)) }),
		},
		Refs: []model.Ref{{
			Name: RefClientCertificate, To: "certificate", OnDelete: model.Refuse, Target: field(func(s *Service) string { return s.ClientCertificate }),
		}},
		Holds: []model.Hold{{Name: HoldAuthorities, To: "ca_certificate", Targets: func(spec any) []string { return spec.(*Service).CACertificates }}},
	}
	Routes = &model.Kind{
		Name: "route", Path: "routes", Scoping: model.ControlPlane, Class: model.Config,
		New: func() any { return new(Route) }, Schema: routeSchema,
		Unique: []model.Index{{Name: IndexName, Value: field(func(r *Route) string { return r.Name })}},
		Refs:   []model.Ref{{Name: RefService, To: "service", OnDelete: model.Refuse, Target: field(func(r *Route) string { return r.Service })}},
		Lists:  []model.ListIndex{listed(IndexTags, func(r *Route) []string { return r.Tags })},
	}
	Plugins = &model.Kind{
		Name: "plugin", Path: "plugins", Scoping: model.ControlPlane, Class: model.Config, Sealed: true,
		Secrets: []string{"/config/provision_key"},
		New:     func() any { return new(Plugin) }, Schema: pluginSchema,
		Unique: []model.Index{
			{Name: IndexInstanceName, Value: field(func(p *Plugin) string { return p.InstanceName })},
			{Name: IndexTarget, Value: func(spec any) (string, bool) {
				p := spec.(*Plugin)
				return p.Name + " " + p.Route + " " + p.Service + " " + p.Consumer, true
			}},
		},
		Refs: []model.Ref{
			{Name: RefRoute, To: "route", OnDelete: model.Cascade, Target: field(func(p *Plugin) string { return p.Route })},
			{Name: RefService, To: "service", OnDelete: model.Cascade, Target: field(func(p *Plugin) string { return p.Service })},
			{Name: RefConsumer, To: "consumer", OnDelete: model.Cascade, Target: field(func(p *Plugin) string { return p.Consumer })},
		},
		Lists: []model.ListIndex{
			listed(IndexTags, func(p *Plugin) []string { return p.Tags }),
			listed(IndexAnonymous, func(p *Plugin) []string { return one(p.AnonymousConsumer()) }),
		},
	}
	Consumers = &model.Kind{
		Name: "consumer", Path: "consumers", Scoping: model.ControlPlane, Class: model.Credential, Announce: model.AnnounceAll,
		New: func() any { return new(Consumer) }, Schema: consumerSchema,
		Unique: []model.Index{
			{Name: IndexUsername, Value: field(func(c *Consumer) string { return c.Username })},
			{Name: IndexCustomID, Value: field(func(c *Consumer) string { return c.CustomID })},
		},
		Lists: []model.ListIndex{listed(IndexTags, func(c *Consumer) []string { return c.Tags })},
		Guards: []model.Guard{{
			By: Plugins, Index: IndexAnonymous, Field: "config.anonymous",
			Texts: func(r *model.Resource) []string {
				return append(one(r.Spec.(*Consumer).Username), r.Name)
			},
		}},
	}
	Applications = &model.Kind{
		Name: "oauth2_credential", Path: "oauth2", Scoping: model.ControlPlane, Class: model.Credential, Sealed: true,
		Secrets: []string{"/client_secret", "/secondary_secret"},
		New:     func() any { return new(Application) }, Schema: applicationSchema,
		Unique: []model.Index{
			{Name: IndexClientID, Value: field(func(a *Application) string { return a.ClientID })},
			// Hashed secrets are exempt: nobody knows whether two are equal.
			{Name: IndexClientSecret, Secret: true, Value: func(spec any) (string, bool) {
				a := spec.(*Application)
				return a.ClientSecret, a.ClientSecret != "" && !a.HashSecret
			}},
		},
		Refs:  []model.Ref{{Name: RefConsumer, To: "consumer", OnDelete: model.Cascade, Target: field(func(a *Application) string { return a.Consumer })}},
		Lists: []model.ListIndex{listed(IndexTags, func(a *Application) []string { return a.Tags })},
	}
	Tokens = &model.Kind{
		Name: "oauth2_token", Path: "oauth2_tokens", Scoping: model.ControlPlane, Class: model.Credential, Sealed: true,
		Secrets: []string{"/access_token", "/refresh_token"},
		New:     func() any { return new(Token) }, Schema: tokenSchema,
		Unique: []model.Index{
			{Name: IndexAccessToken, Secret: true, Value: func(spec any) (string, bool) { return TokenKey(spec.(*Token).AccessToken), true }},
			{Name: IndexRefreshToken, Secret: true, Value: field(func(t *Token) string { return t.RefreshToken })},
		},
		Refs: []model.Ref{
			{Name: RefCredential, To: "oauth2_credential", OnDelete: model.Cascade, Target: field(func(t *Token) string { return t.Credential })},
			{Name: RefService, To: "service", OnDelete: model.Cascade, Target: field(func(t *Token) string { return t.Service })},
		},
		Lists: []model.ListIndex{
			listed(IndexFamily, func(t *Token) []string { return one(t.Family) }),
			listed(IndexUser, func(t *Token) []string { return one(t.AuthenticatedUserID) }),
		},
		Expires: func(spec any) time.Time { return at(spec.(*Token).DropAt) },
	}
	// Codes and SpentValues are no entities of an API.
	Codes = &model.Kind{
		Name: "oauth2_code", Path: "oauth2-codes", Scoping: model.ControlPlane, Class: model.Credential,
		Announce: model.AnnounceNone, ReadOnly: true, Sealed: true,
		New:    func() any { return new(Code) },
		Unique: []model.Index{{Name: IndexCode, Secret: true, Value: field(func(c *Code) string { return c.Code })}},
		Refs: []model.Ref{
			{Name: RefCredential, To: "oauth2_credential", OnDelete: model.Cascade, Target: field(func(c *Code) string { return c.Credential })},
			{Name: RefService, To: "service", OnDelete: model.Cascade, Target: field(func(c *Code) string { return c.Service })},
			{Name: RefPlugin, To: "plugin", OnDelete: model.Cascade, Target: field(func(c *Code) string { return c.Plugin })},
		},
		Lists:   []model.ListIndex{listed(IndexUser, func(c *Code) []string { return one(c.AuthenticatedUserID) })},
		Expires: func(spec any) time.Time { return at(spec.(*Code).DropAt) },
	}
	SpentValues = &model.Kind{
		Name: "oauth2_spent", Path: "oauth2-spent", Scoping: model.ControlPlane, Class: model.Credential,
		Announce: model.AnnounceNone, ReadOnly: true,
		New:    func() any { return new(Spent) },
		Unique: []model.Index{{Name: IndexSpent, Secret: true, Value: field(func(s *Spent) string { return s.Value })}},
		Refs: []model.Ref{
			{Name: RefCredential, To: "oauth2_credential", OnDelete: model.Cascade, Target: field(func(s *Spent) string { return s.Credential })},
		},
		Expires: func(spec any) time.Time { return at(spec.(*Spent).DropAt) },
	}
	Keys = &model.Kind{
		Name: "keyauth_credential", Path: "key-auths", Scoping: model.ControlPlane, Class: model.Credential, Sealed: true,
		Secrets: []string{"/key"},
		New:     func() any { return new(Key) }, Schema: keySchema,
		Unique:  []model.Index{{Name: IndexKey, Secret: true, Value: func(spec any) (string, bool) { return KeyAuthKey(spec.(*Key).Key), true }}},
		Refs:    []model.Ref{{Name: RefConsumer, To: "consumer", OnDelete: model.Cascade, Target: field(func(k *Key) string { return k.Consumer })}},
		Lists:   []model.ListIndex{listed(IndexTags, func(k *Key) []string { return k.Tags })},
		Expires: func(spec any) time.Time { return at(spec.(*Key).DropAt) },
	}
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
