package gateway

import (
	"time"

	"github.com/meshgate/meshgate/controlplane/model"
)

// Code is an authorisation code. It is used up by deleting it.
type Code struct {
	// Credential is the id of the application, Plugin of the instance that
	// issued the code, Service of the current service or empty.
	Credential string `json:"credential" jsonschema_extras:"x-refers-to=oauth2_credential,x-on-delete=cascade"`
	Plugin     string `json:"plugin" jsonschema_extras:"x-refers-to=plugin,x-on-delete=cascade,x-in=plugin_plane"`
	Service    string `json:"service,omitempty" jsonschema_extras:"x-refers-to=service,x-on-delete=cascade,x-in=service_plane"`
	// PluginPlane and ServicePlane are their control planes, if these are not the code's own.
	PluginPlane  string `json:"plugin_plane,omitempty"`
	ServicePlane string `json:"service_plane,omitempty"`
	Code         string `json:"code" jsonschema_extras:"x-unique=secret"`
	Scope        string `json:"scope,omitempty"`
	// AuthenticatedUserID is the end user.
	AuthenticatedUserID string `json:"authenticated_userid,omitempty" jsonschema_extras:"x-listed=true"`
	// Challenge is the code_challenge of RFC 7636, unpadded base64url; Method
	// is S256 where there is one.
	Challenge string `json:"challenge,omitempty"`
	Method    string `json:"method,omitempty"`
	// RedirectURI is the one that was asked for, or empty.
	RedirectURI string `json:"redirect_uri,omitempty"`
	// DropAt is when the code ends, in milliseconds of Unix time.
	DropAt int64 `json:"drop_at"`
}

// Codes is the kind of authorisation codes, which are no entities of an API.
var Codes = rules.Describe(Code{}, model.Kind{
	Name: "oauth2_code", Path: "oauth2-codes", Scoping: model.ControlPlane, Class: model.Credential,
	Announce: model.AnnounceNone, ReadOnly: true, Sealed: true,
	Expires: func(spec any) time.Time { return at(spec.(*Code).DropAt) },
})
