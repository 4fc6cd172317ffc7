// Package gateway holds the kinds of the gateway (services, routes, plugins, consumers,
// applications, tokens), their rules, and pure decisions about them: which route wins and
// which plugins are effective.
package gateway

import (
	"time"

	"github.com/meshgate/meshgate/controlplane/model"
)

// The names of indexes.
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
	// IndexCode holds the code, IndexSpent [TokenKey] of a code or token that was used up.
	IndexCode  = "code"
	IndexSpent = "value"
	// IndexKey holds [KeyAuthKey] of an API key.
	IndexKey = "key"
	// IndexTags lists resources by each of their tags.
	IndexTags = "tags"
	// IndexHost lists services by their host in lower case, which may be the name of an
	// upstream.
	IndexHost = "host"
	// IndexAnonymous lists plugin instances by the consumer that requests without credentials
	// get.
	IndexAnonymous = "anonymous"
	// IndexFamily lists tokens by family, IndexUser tokens and codes by end user.
	IndexFamily = "family"
	IndexUser   = "authenticated_userid"
	// IndexTarget makes a plugin instance unique for (name, route, service, consumer), and a
	// target of an upstream unique for (upstream, target).
	IndexTarget = "target"
	// IndexDigest makes the certificate of an authority unique.
	IndexDigest = "cert_digest"

	RefConsumer   = "consumer"
	RefService    = "service"
	RefRoute      = "route"
	RefCredential = "credential"
	RefPlugin     = "plugin"
	RefUpstream   = "upstream"
	// RefCertificate is the certificate of an SNI. RefClientCertificate is the certificate
	// that is presented to a service or upstream. HoldAuthorities are the authorities of a
	// service.
	RefCertificate       = "certificate"
	RefClientCertificate = "client_certificate"
	HoldAuthorities      = "ca_certificates"
)

// at converts milliseconds of Unix time; 0, which means never, becomes the zero time.
func at(ms int64) time.Time {
	if ms <= 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

// listed makes a list index over texts of a spec.
func listed[T any](name string, values func(*T) []string) model.ListIndex {
	return model.ListIndex{Name: name, Values: func(spec any) []string { return values(spec.(*T)) }}
}

// one returns a list of one text, or no list if the text is empty.
func one(s string) []string {
	if s == "" {
		return nil
	}
	return []string{s}
}

// Kinds lists the kinds of the gateway in the order in which they are shown. Each kind has
// its own file with its spec and its rules.
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
