package gateway

import (
	"time"

	"github.com/meshgate/meshgate/controlplane/model"
)

// Spent remembers a code or refresh token that was used up, so that its second
// use can be told from a guess.
type Spent struct {
	// Value is [TokenKey] of what was used up.
	Value string `json:"value" jsonschema_extras:"x-unique=secret"`
	// Credential is the id of the application it belonged to.
	Credential string `json:"credential" jsonschema_extras:"x-refers-to=oauth2_credential,x-on-delete=cascade"`
	// Family is that of the tokens that came of it.
	Family string `json:"family"`
	// Successor is the name of the token that a refresh token was exchanged
	// for; empty for codes, which have no grace.
	Successor string `json:"successor,omitempty"`
	// At is when it was used, DropAt when nothing that came of it can be left;
	// both in milliseconds of Unix time, DropAt 0 for never.
	At     int64 `json:"at"`
	DropAt int64 `json:"drop_at,omitempty"`
}

// SpentValues is the kind of what was used up, which is no entity of an API.
var SpentValues = rules.Describe(Spent{}, model.Kind{
	Name: "oauth2_spent", Path: "oauth2-spent", Scoping: model.ControlPlane, Class: model.Credential,
	Announce: model.AnnounceNone, ReadOnly: true,
	Expires: func(spec any) time.Time { return at(spec.(*Spent).DropAt) },
})
