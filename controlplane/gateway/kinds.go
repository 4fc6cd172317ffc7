// Package gateway holds the kinds of the gateway (services, routes, plugins,
// consumers, applications, tokens), their rules, and the pure decisions about
// them: which route wins and which plugins are effective.
package gateway

import (
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

// Kinds lists the kinds of the gateway. Each has a file of its own, with its spec, its
// rules and what follows from it; the order is that in which they are shown.
func Kinds() []*model.Kind {
	return []*model.Kind{
		Services,
		Routes,
		Consumers,
		Plugins,
		Applications,
		Tokens,
		Keys,
		Upstreams,
		Targets,
		Certificates,
		SNIs,
		CACertificates,
		Codes,
		SpentValues,
		Instances,
	}
}
