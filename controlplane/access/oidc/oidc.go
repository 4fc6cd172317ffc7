// Package oidc identifies callers by the bearer tokens of an OpenID Connect issuer.
//
// Tokens are JWTs that the issuer has signed with an asymmetric key. Its keys are fetched when
// a token needs them. Every fetch is bounded in time and size, and fetches are bounded in
// number, so that made-up key ids cost the issuer little. Without keys that are recent enough
// tokens are refused.
package oidc

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/meshgate/meshgate/controlplane/fault"
)

const (
	// maxToken bounds tokens, in bytes.
	maxToken = 16 << 10
	// leeway is what the clocks of issuer and control plane may differ.
	leeway = 30 * time.Second
)

// methods are the signing methods that tokens may have. None has a shared secret.
var methods = []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}

// Options of an issuer.
type Options struct {
	// Issuer is its URL, and Audience what its tokens must be for.
	Issuer, Audience string
	// UserClaim and GroupsClaim name the claims with the name of the user, a text, and its
	// groups, a text or a list of texts.
	UserClaim, GroupsClaim string
	// Client fetches the keys.
	Client *http.Client
	Now    func() time.Time
	// Log is told when the keys cannot be fetched any more, why, and when they can again.
	Log *slog.Logger
}

// Issuer checks tokens of one issuer. It is safe for concurrent use.
type Issuer struct {
	o    Options
	keys keys
}

// New returns an issuer. It fetches nothing.
func New(o Options) (*Issuer, error) {
	if err := CheckURL(o.Issuer); err != nil {
		return nil, err
	}
	if o.Audience == "" || o.UserClaim == "" {
		return nil, errors.New("an issuer needs an audience and a claim that names users")
	}
	client := *o.Client
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	o.Client = &client
	i := &Issuer{o: o, keys: keys{issuer: strings.TrimSuffix(o.Issuer, "/"), named: o.Issuer, client: &client, now: o.Now, log: o.Log, patience: patience}}
	i.keys.ctx, i.keys.end = context.WithCancel(context.Background())
	return i, nil
}

// End ends what the issuer is being asked, and waits for it. Nothing is asked afterwards.
func (i *Issuer) End() {
	i.keys.close()
}

// CheckURL checks that a URL can be that of an issuer: https, or http on this machine, and no query
// (OpenID Connect Discovery 1.0 section 3).
func CheckURL(text string) error { return checkURL(text, false) }

// checkURL is CheckURL, for issuers and for their keys, whose URL may have a query.
func checkURL(text string, query bool) error {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" && !query || u.Fragment != "" {
		if query {
			return errors.New("must be a URL such as https://login.example/keys, without credentials and fragment")
		}
		return errors.New("must be a URL such as https://login.example, without credentials, query and fragment")
	}
	if ip := net.ParseIP(u.Hostname()); u.Scheme == "http" && (u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()) {
		return nil
	}
	if u.Scheme != "https" {
		return errors.New("must begin with https://, because whoever changes the keys on the way can make tokens")
	}
	return nil
}

// Issued reports whether a token says that it is from this issuer. It does not check the token.
func (i *Issuer) Issued(token string) bool {
	var c jwt.RegisteredClaims
	_, _, err := jwt.NewParser().ParseUnverified(token, &c)
	return err == nil && c.Issuer == i.o.Issuer
}

// Check returns user and groups of a valid token. Its error is a Denied fault for a token that
// does not count, and Unavailable if the keys of the issuer cannot be fetched.
func (i *Issuer) Check(ctx context.Context, token string) (user string, groups []string, err error) {
	if len(token) > maxToken {
		return "", nil, fault.New(fault.Denied, "the token is too long")
	}
	c, tried, err := i.verify(ctx, token, nil)
	if errors.Is(err, jwt.ErrTokenSignatureInvalid) { // the issuer may have changed the key under its id
		if newer, _, again := i.verify(ctx, token, tried); !errors.Is(again, errUnknownKey) {
			c, err = newer, again
		}
	}
	switch {
	case errors.Is(err, errUnavailable):
		return "", nil, fault.Wrap(fault.Unavailable, err, "the issuer of the token cannot be asked for its keys")
	case err != nil:
		return "", nil, fault.Wrap(fault.Denied, err, "the token is not valid")
	}
	user, _ = c[i.o.UserClaim].(string)
	if user == "" {
		return "", nil, fault.New(fault.Denied, "the token has no claim %s", i.o.UserClaim)
	}
	if i.o.UserClaim == claimMail && !affirmed(c[claimVerified]) {
		return "", nil, fault.New(fault.Denied, "the token does not say that its issuer has verified the mail address (%s)", claimVerified)
	}
	groups, err = groupsOf(c[i.o.GroupsClaim])
	return user, groups, err
}

// verify returns the claims of a valid token, and the keys with which it was verified, which are not those
// that were tried before.
func (i *Issuer) verify(ctx context.Context, token string, tried *set) (c jwt.MapClaims, by *set, err error) {
	c = jwt.MapClaims{}
	var none error // why there are no keys
	_, err = jwt.ParseWithClaims(token, c, func(j *jwt.Token) (any, error) {
		kid, _ := j.Header["kid"].(string)
		var found []key
		if found, by, none = i.keys.get(ctx, kid, j.Method.Alg(), tried); none != nil {
			return nil, none
		}
		var fit jwt.VerificationKeySet
		for _, key := range found {
			fit.Keys = append(fit.Keys, key.public)
		}
		return fit, nil
	}, jwt.WithValidMethods(methods), jwt.WithExpirationRequired(), jwt.WithIssuer(i.o.Issuer), jwt.WithAudience(i.o.Audience), jwt.WithLeeway(leeway), jwt.WithTimeFunc(i.o.Now))
	if none != nil {
		err = none // without what the parser puts before it
	}
	return c, by, err
}

// The claims about mail addresses (OpenID Connect Core 1.0 section 5.1). Where people register
// themselves, an address that is not verified is whatever they wrote.
const (
	claimMail     = "email"
	claimVerified = "email_verified"
)

// affirmed reports whether a claim is true. Some issuers write it as a text.
func affirmed(claim any) bool { return claim == true || claim == "true" }

// groupsOf reads a claim with groups. A claim that is missing means none.
func groupsOf(claim any) (groups []string, err error) {
	switch v := claim.(type) {
	case nil:
		return nil, nil
	case string:
		return []string{v}, nil
	case []any:
		for _, g := range v {
			text, ok := g.(string)
			if !ok {
				return nil, fault.New(fault.Denied, "the groups of the token are no texts")
			}
			groups = append(groups, text)
		}
		return groups, nil
	}
	return nil, fault.New(fault.Denied, "the groups of the token are no list of texts")
}
