package gateway

import (
	"time"

	"github.com/meshgate/meshgate/controlplane/model"
)

// Spent remembers a code or refresh token that was used up, so that its second use can be
// distinguished from a guess.
type Spent struct {
	// Value is [TokenKey] of the code or token.
	Value string `json:"value" jsonschema_extras:"x-unique=secret"`
	// Credential is the id of its application.
	Credential string `json:"credential" jsonschema_extras:"x-refers-to=oauth2_credential,x-on-delete=cascade"`
	// Family is the family of the tokens that were issued for it.
	Family string `json:"family"`
	// Successor is the name of the token that a refresh token was exchanged for. It is empty
	// for codes, which have no grace.
	Successor string `json:"successor,omitempty"`
	// At is the time of its use. DropAt is the time when no token of its family can be left;
	// 0 for never. Both are in milliseconds of Unix time.
	At     int64 `json:"at"`
	DropAt int64 `json:"drop_at,omitempty"`
}

// SpentValues is the kind of used-up codes and tokens, which no API shows.
var SpentValues = rules.Describe(Spent{}, model.Kind{
	Name: "oauth2_spent", Path: "oauth2-spent", Scoping: model.ControlPlane, Class: model.Credential,
	Announce: model.AnnounceNone, ReadOnly: true,
	Expires: func(spec any) time.Time { return at(spec.(*Spent).DropAt) },
})
