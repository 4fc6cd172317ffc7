// Package gateway holds the kinds of the gateway (services, routes, plugins,
// consumers, applications, tokens), their rules, and the pure decisions about
// them: which route wins and which plugins are effective.
package gateway

import (
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/meshgate/meshgate/controlplane/model"
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
	// IndexTarget makes a plugin instance unique for (name, route, service, consumer).
	IndexTarget = "target"

	RefConsumer   = "consumer"
	RefService    = "service"
	RefRoute      = "route"
	RefCredential = "credential"
)

// TokenKey is the value under which an access token is found in its index: the
// SHA-256 of the token in lower-case hex, which is all that a filter knows of it.
func TokenKey(accessToken string) string {
	h := sha256.Sum256([]byte(accessToken))
	return hex.EncodeToString(h[:])
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
	}
	Routes = &model.Kind{
		Name: "route", Path: "routes", Scoping: model.ControlPlane, Class: model.Config,
		New: func() any { return new(Route) }, Schema: routeSchema,
		Unique: []model.Index{{Name: IndexName, Value: field(func(r *Route) string { return r.Name })}},
		Refs:   []model.Ref{{Name: RefService, To: "service", OnDelete: model.Refuse, Target: field(func(r *Route) string { return r.Service })}},
	}
	Plugins = &model.Kind{
		Name: "plugin", Path: "plugins", Scoping: model.ControlPlane, Class: model.Config, Sealed: true,
		New: func() any { return new(Plugin) }, Schema: pluginSchema,
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
	}
	Consumers = &model.Kind{
		Name: "consumer", Path: "consumers", Scoping: model.ControlPlane, Class: model.Credential, Announce: model.AnnounceAll,
		New: func() any { return new(Consumer) }, Schema: consumerSchema,
		Unique: []model.Index{
			{Name: IndexUsername, Value: field(func(c *Consumer) string { return c.Username })},
			{Name: IndexCustomID, Value: field(func(c *Consumer) string { return c.CustomID })},
		},
	}
	Applications = &model.Kind{
		Name: "oauth2_credential", Path: "oauth2", Scoping: model.ControlPlane, Class: model.Credential, Sealed: true,
		New: func() any { return new(Application) }, Schema: applicationSchema,
		Unique: []model.Index{
			{Name: IndexClientID, Value: field(func(a *Application) string { return a.ClientID })},
			// Hashed secrets are exempt: nobody knows whether two are equal.
			{Name: IndexClientSecret, Secret: true, Value: func(spec any) (string, bool) {
				a := spec.(*Application)
				return a.ClientSecret, a.ClientSecret != "" && !a.HashSecret
			}},
		},
		Refs: []model.Ref{{Name: RefConsumer, To: "consumer", OnDelete: model.Cascade, Target: field(func(a *Application) string { return a.Consumer })}},
	}
	Tokens = &model.Kind{
		Name: "oauth2_token", Path: "oauth2_tokens", Scoping: model.ControlPlane, Class: model.Credential, Sealed: true,
		New: func() any { return new(Token) }, Schema: tokenSchema,
		Unique: []model.Index{
			{Name: IndexAccessToken, Secret: true, Value: func(spec any) (string, bool) { return TokenKey(spec.(*Token).AccessToken), true }},
			{Name: IndexRefreshToken, Secret: true, Value: field(func(t *Token) string { return t.RefreshToken })},
		},
		Refs: []model.Ref{
			{Name: RefCredential, To: "oauth2_credential", OnDelete: model.Cascade, Target: field(func(t *Token) string { return t.Credential })},
			{Name: RefService, To: "service", OnDelete: model.Cascade, Target: field(func(t *Token) string { return t.Service })},
		},
		Expires: func(spec any) time.Time {
			if at := spec.(*Token).DropAt; at > 0 {
				return time.UnixMilli(at)
			}
			return time.Time{}
		},
	}
)

// Kinds lists the kinds of the gateway.
func Kinds() []*model.Kind {
	return []*model.Kind{Services, Routes, Plugins, Consumers, Applications, Tokens, Instances}
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
