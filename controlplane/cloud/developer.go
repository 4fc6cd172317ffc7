package cloud

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"

	"github.com/meshgate/meshgate/controlplane/model"
)

// Developer is an account of a portal. Its password is a resource of its own, so that nothing that
// lists developers reads it.
type Developer struct {
	// Portal is the id of the portal.
	Portal   string `json:"portal" jsonschema_extras:"x-refers-to=portal,x-on-delete=cascade,x-hidden=true"`
	Email    string `json:"email" jsonschema:"maxLength=254" jsonschema_extras:"x-check=email"`
	FullName string `json:"full_name" jsonschema_extras:"x-check=name,x-chars=1..255"`
	Status   string `json:"status" jsonschema:"enum=approved,enum=pending,enum=revoked,enum=rejected,default=approved"`
}

// The statuses of developers. Only approved ones may log in.
const (
	Approved = "approved"
	Pending  = "pending"
	Revoked  = "revoked"
	Rejected = "rejected"
)

// IndexEmail finds developers by [EmailKey], IndexPortal lists those of a portal.
const (
	IndexEmail  = "email"
	IndexPortal = "portal"
)

// MaxDevelopers bounds the developers of a portal.
const MaxDevelopers = 10_000

// MaxPending bounds those of them who wait for approval and have registered themselves: anybody may
// register.
const MaxPending = 1_000

// Developers is the kind of developers.
var Developers = portalRules.Describe(Developer{}, model.Kind{
	Name: "portal_developer", Path: "developers", Scoping: model.Global, Class: model.Config,
	Unique: []model.Index{{Name: IndexEmail, Value: func(spec any) (string, bool) {
		d := spec.(*Developer)
		return EmailKey(d.Portal, d.Email), true
	}}},
	Schema: &model.Schema{CreatedUnit: time.Millisecond, Updated: true},
})

// EmailKey is what no two developers share: the address within its portal. Nobody tells apart
// addresses by their case.
func EmailKey(portal, email string) string { return portal + " " + strings.ToLower(email) }

// Password is how the password of a developer is verified. It has the name of the developer, and is
// not there while the developer has none.
type Password struct {
	Developer string `json:"developer" jsonschema_extras:"x-refers-to=portal_developer,x-on-delete=cascade"`
	// Hash is made by package portal.
	Hash string `json:"hash"`
}

// Passwords is the kind of passwords, which no API shows. That somebody sets one is recorded: it takes
// the account over.
var Passwords = model.Describe(Password{}, model.Kind{
	Name: "portal_password", Path: "portal-passwords", Scoping: model.Global, Class: model.Credential, Announce: model.AnnounceNone, Recorded: true, ReadOnly: true, Sealed: true,
	Secrets: []string{"/hash"},
})

// Trial counts how often in a row a login of a developer has failed. It has the name of the developer.
// One of a portal has the name of the portal, and counts nothing: see package portal.
type Trial struct {
	Developer string `json:"developer,omitempty" jsonschema_extras:"x-refers-to=portal_developer,x-on-delete=cascade"`
	// Failures count from everywhere but where the developer has logged in before.
	Failures
	// Known are the addresses from which the developer has logged in. The failures of each count there
	// alone: strangers do not lock the developer out of them.
	Known []Known `json:"known,omitempty"`
}

// Failures are logins in a row that failed.
type Failures struct {
	Count int `json:"failures"`
	// LastAt is when the last one failed, LockedUntil when the lock that they caused ends, both in
	// milliseconds of Unix time.
	LastAt      int64 `json:"last_at"`
	LockedUntil int64 `json:"locked_until,omitempty"`
}

// Known is an address from which a developer has logged in.
type Known struct {
	// From is the network that counts as one address, At when the last login was.
	From string `json:"from"`
	At   int64  `json:"at"`
	Failures
}

// MaxKnown bounds the addresses of a developer that are known, KnownFor is how long after a login one is.
const (
	MaxKnown = 8
	KnownFor = 30 * 24 * time.Hour
)

// trialKept is how long a failure counts.
const trialKept = time.Hour

// ends is when nothing in a trial counts any more.
func (t *Trial) ends() time.Time {
	ends := time.UnixMilli(t.LastAt).Add(trialKept)
	for _, k := range t.Known {
		if at := time.UnixMilli(k.At).Add(KnownFor); at.After(ends) {
			ends = at
		}
	}
	return ends
}

// Trials is the kind of trials, which no API shows.
var Trials = model.Describe(Trial{}, model.Kind{
	Name: "portal_trial", Path: "portal-trials", Scoping: model.Global, Class: model.Credential, Announce: model.AnnounceNone, ReadOnly: true, Fleeting: true,
	Expires: func(spec any) time.Time { return spec.(*Trial).ends() },
})

// Session is a login that lasts. Its name is in both of its tokens, of which only digests are stored.
type Session struct {
	Developer string `json:"developer" jsonschema_extras:"x-refers-to=portal_developer,x-on-delete=cascade"`
	// Access and Refresh are [SecretDigest] of the tokens that count.
	Access  string `json:"access"`
	Refresh string `json:"refresh"`
	// AccessEnds, RefreshEnds and Ends are the ends of the tokens and of the session as a whole, in
	// milliseconds of Unix time.
	AccessEnds  int64 `json:"access_ends"`
	RefreshEnds int64 `json:"refresh_ends"`
	Ends        int64 `json:"ends"`
	// Era is that of the portal in which the session began.
	Era int64 `json:"era,omitempty"`
}

// IndexDeveloper lists sessions and invitations by their developer.
const IndexDeveloper = "developer"

// Sessions is the kind of sessions, which no API shows.
var Sessions = model.Describe(Session{}, model.Kind{
	Name: "portal_session", Path: "portal-sessions", Scoping: model.Global, Class: model.Credential, Announce: model.AnnounceNone, ReadOnly: true, Fleeting: true,
	Expires: func(spec any) time.Time { return time.UnixMilli(spec.(*Session).RefreshEnds) },
})

// Invitation is a token by which a developer sets a password. Its name is [SecretDigest] of the token.
type Invitation struct {
	Developer string `json:"developer" jsonschema_extras:"x-refers-to=portal_developer,x-on-delete=cascade"`
	// Verified says that the token is the second of two: the one for which the first was exchanged.
	Verified bool  `json:"verified,omitempty"`
	Ends     int64 `json:"ends"`
}

// invitationKept is how long an invitation that has ended is told apart from one that never was.
const invitationKept = 7 * 24 * time.Hour

// Invitations is the kind of invitations, which no API shows. Who makes one is recorded: whoever has its
// token can take the account over.
var Invitations = model.Describe(Invitation{}, model.Kind{
	Name: "portal_invitation", Path: "portal-invitations", Scoping: model.Global, Class: model.Credential, Announce: model.AnnounceNone, Recorded: true, ReadOnly: true, Fleeting: true,
	Expires: func(spec any) time.Time { return time.UnixMilli(spec.(*Invitation).Ends).Add(invitationKept) },
})

// SecretDigest is what is stored of a random secret. It is long, so that nothing slower is needed.
func SecretDigest(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// mostLocal bounds what stands before the @ of an address (RFC 5321 section 4.5.3.1.1).
const mostLocal = 64

// emailText checks an e-mail address: the form that people use, not all that RFC 5322 allows.
func emailText(v any) string {
	local, domain, ok := strings.Cut(v.(string), "@")
	odd := strings.ContainsFunc(local, func(r rune) bool { return r <= ' ' || r >= 0x7f || strings.ContainsRune(`"(),:;<>@[\]`, r) })
	if !ok || local == "" || len(local) > mostLocal || odd || !IsDomain(strings.ToLower(domain)) {
		return "must be a valid email"
	}
	return ""
}
