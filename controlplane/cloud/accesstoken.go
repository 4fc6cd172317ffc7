package cloud

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"

	"github.com/meshgate/meshgate/controlplane/access"
	"github.com/meshgate/meshgate/controlplane/model"
)

// AccessToken is a personal access token. The token itself is stored nowhere.
type AccessToken struct {
	Name string `json:"name" jsonschema:"maxLength=255" jsonschema_extras:"x-unique=true,x-check=name"`
	// Role is what the token is good for, in ControlPlanes or, if it lists none, everywhere.
	Role          string   `json:"role" jsonschema:"enum=admin,enum=editor,enum=viewer"`
	ControlPlanes []string `json:"control_planes,omitempty" jsonschema:"uniqueItems=true,maxLength=256"`
	// System tokens are of programs, and named so in logs and records.
	System bool `json:"system" jsonschema:"default=false"`
	// ExpiresAt is the end of the token in milliseconds of Unix time; 0 for never.
	ExpiresAt int64 `json:"expires_at,omitempty" jsonschema_extras:"x-hidden=true"`
	// Digest is [TokenDigest].
	Digest string `json:"digest" jsonschema_extras:"x-hidden=true,x-unique=secret"`
}

// IndexDigest finds access tokens by [TokenDigest].
const IndexDigest = "digest"

// AccessTokens is the kind of personal access tokens. One that has expired is gone.
var AccessTokens = rules.Describe(AccessToken{}, model.Kind{
	Name: "personal_access_token", Path: "personal-access-tokens", Scoping: model.Global, Class: model.Config, Sealed: true,
	Secrets: []string{"/digest"},
	Expires: func(spec any) time.Time {
		if at := spec.(*AccessToken).ExpiresAt; at > 0 {
			return time.UnixMilli(at)
		}
		return time.Time{}
	},
	Schema: &model.Schema{CreatedUnit: time.Millisecond, Updated: true},
})

// prefixToken begins all tokens, so that they are recognised where they do not belong.
const prefixToken = "mgpat_"

// NewToken returns a token whose random part is given. It has no other meaning.
func NewToken(random string) string { return prefixToken + random }

// TokenDigest is what is stored of a token. Tokens are random and long, so that nothing slower is
// needed.
func TokenDigest(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// IsToken reports whether a text has the form of a token.
func IsToken(text string) bool { return strings.HasPrefix(text, prefixToken) }

// Actor is who shows the token.
func (t *AccessToken) Actor() model.Actor {
	name := "token:" + t.Name
	if t.System {
		name = "system:" + t.Name
	}
	planes := t.ControlPlanes
	if len(planes) == 0 {
		planes = []string{""}
	}
	var groups []string
	for _, plane := range planes {
		groups = append(groups, access.RoleGroup(t.Role, plane))
	}
	return model.User(name, groups...)
}
