package cloud

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// AccessToken is a personal access token. The token itself is stored nowhere.
type AccessToken struct {
	Name string `json:"name" jsonschema:"maxLength=255" jsonschema_extras:"x-unique=true,x-check=token-name"`
	// Role is what the token is good for, in ControlPlanes or, if it lists none, everywhere. They are
	// scopes; see [ScopeOf].
	Role          string   `json:"role" jsonschema:"enum=admin,enum=editor,enum=viewer"`
	ControlPlanes []string `json:"control_planes,omitempty" jsonschema:"uniqueItems=true,maxLength=1024"`
	// System tokens are of programs, and named so in logs and records.
	System bool `json:"system" jsonschema:"default=false"`
	// ExpiresAt is the end of the token (RFC 3339); empty for never.
	ExpiresAt string `json:"expires_at,omitempty" jsonschema_extras:"x-check=time"`
	// Digest is [TokenDigest].
	Digest string `json:"digest" jsonschema_extras:"x-hidden=true,x-unique=secret"`
}

// LocalSocket is the name of the socket in the state directory of a control plane at which the cloud API
// answers the owner of that directory as an administrator.
const LocalSocket = "control.sock"

// IndexDigest finds access tokens by [TokenDigest].
const IndexDigest = "digest"

// AccessTokens is the kind of personal access tokens. One that has expired is gone.
var AccessTokens = rules.Describe(AccessToken{}, model.Kind{
	Name: "personal_access_token", Path: "personal-access-tokens", Scoping: model.Global, Class: model.Config, Sealed: true,
	Secrets: []string{"/digest"},
	Expires: func(spec any) time.Time { return spec.(*AccessToken).end() },
	Schema:  &model.Schema{CreatedUnit: time.Millisecond, Updated: true},
})

// tokenNameText checks the name of a token. With a colon it could be that of a user whom somebody else
// names, see [model.IsHolder].
func tokenNameText(v any) string {
	if strings.Contains(v.(string), ":") {
		return "must not hold a colon"
	}
	return nameText(v)
}

// end is when the token counts no more; zero for never.
func (t *AccessToken) end() time.Time {
	at, _ := time.Parse(time.RFC3339, t.ExpiresAt) // it is empty, or was checked
	return at
}

// prefixToken begins all tokens, so that they are recognised where they do not belong.
const prefixToken = "mgpat_"

// TokenDigest is what is stored of a token. Tokens are random and long, so that nothing slower is
// needed.
func TokenDigest(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// IsToken reports whether a text has the form of a token.
func IsToken(text string) bool { return strings.HasPrefix(text, prefixToken) }

// IssueToken makes a token. Its digest belongs into [AccessToken.Digest].
func IssueToken() (token, digest string) {
	token = prefixToken + rand.Text() + rand.Text()
	return token, TokenDigest(token)
}

// TokenHolder returns who shows a token. The error is a Denied fault for a token that does not count.
func TokenHolder(r store.Reader, token string, now time.Time) (model.Actor, error) {
	res, err := r.Find(AccessTokens, "", IndexDigest, TokenDigest(token))
	if err != nil && !fault.Is(err, fault.NotFound) {
		return model.Actor{}, err
	}
	if err == nil {
		t := res.Spec.(*AccessToken)
		if tokenNameText(t.Name) != "" {
			// It is older than the rule, and its holder could be a user whom somebody else names.
			return model.Actor{}, fault.New(fault.Denied, "the access token has a name that is not allowed: make one with another name")
		}
		if end := t.end(); end.IsZero() || now.Before(end) {
			return t.Actor(), nil
		}
	}
	return model.Actor{}, fault.New(fault.Denied, "the access token is unknown, was revoked or has expired")
}

// Actor is who shows the token.
func (t *AccessToken) Actor() model.Actor {
	name := model.PrefixPerson + t.Name
	if t.System {
		name = model.PrefixProgram + t.Name
	}
	planes := t.ControlPlanes
	if len(planes) == 0 {
		planes = []string{""}
	}
	var own []model.OwnRole
	for _, plane := range planes {
		own = append(own, model.OwnRole{Role: t.Role, ControlPlane: plane})
	}
	return model.User(name).Holding(own...)
}
