package chaos_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// grant asks for a token until there is one.
func (a *actor) grant(ctx context.Context, form url.Values) (access, refresh string) {
	for ctx.Err() == nil {
		if r := a.oauth(a.gateway(), protected+"token", form); r.status == http.StatusOK {
			return r.text("access_token"), r.text("refresh_token")
		}
		pause(ctx, 50*time.Millisecond)
	}
	return "", ""
}

// password gets a token with a refresh token.
func (a *actor) password(ctx context.Context) (access, refresh string) {
	return a.grant(ctx, url.Values{
		"grant_type": {"password"}, "provision_key": {provision}, "authenticated_userid": {"user-" + strconv.Itoa(a.number)}, "scope": {"email"},
	})
}

func revocationEndpoint(ctx context.Context, a *actor, w *way) ([]*credential, func() reply) {
	access, _ := a.password(ctx)
	if access == "" {
		return nil, nil
	}
	p := a.gateway()
	return []*credential{a.bearer(w.name, a.name("issued"), access)}, func() reply {
		return a.oauth(p, protected+"revoke", url.Values{"token": {access}})
	}
}

// refresh exchanges a refresh token, which ends the access token beside it.
func refresh(ctx context.Context, a *actor, w *way) ([]*credential, func() reply) {
	access, again := a.password(ctx)
	if access == "" {
		return nil, nil
	}
	p := a.gateway()
	return []*credential{a.bearer(w.name, a.name("issued"), access)}, func() reply {
		return a.oauth(p, protected+"token", url.Values{"grant_type": {"refresh_token"}, "refresh_token": {again}})
	}
}

// verifier proves, in the strict profile, that whoever uses a code has asked for it.
const verifier = "a-verifier-of-at-least-forty-three-characters"

// authorize gets a pair by a code, in the strict profile.
func (a *actor) authorize(ctx context.Context, p *proxy) (access, refresh string) {
	sum := sha256.Sum256([]byte(verifier))
	for ctx.Err() == nil {
		code := a.oauth(p, strict+"authorize", url.Values{
			"response_type": {"code"}, "scope": {"email"}, "redirect_uri": {redirect}, "provision_key": {provision},
			"authenticated_userid": {"user"}, "code_challenge_method": {"S256"}, "code_challenge": {base64.RawURLEncoding.EncodeToString(sum[:])},
		})
		if to, err := url.Parse(code.text("redirect_uri")); err == nil && to.Query().Get("code") != "" {
			r := a.oauth(p, strict+"token", url.Values{
				"grant_type": {"authorization_code"}, "code": {to.Query().Get("code")}, "redirect_uri": {redirect}, "code_verifier": {verifier},
			})
			if r.status == http.StatusOK {
				return r.text("access_token"), r.text("refresh_token")
			}
		}
		pause(ctx, 50*time.Millisecond)
	}
	return "", ""
}

// reuse presents a refresh token that was used up. All that came of it ends, and
// the answer says that the grant is no good.
func reuse(ctx context.Context, a *actor, w *way) ([]*credential, func() reply) {
	p := a.gateway()
	_, spent := a.authorize(ctx, p)
	form := func() url.Values { return url.Values{"grant_type": {"refresh_token"}, "refresh_token": {spent}} }
	if spent == "" {
		return nil, nil
	}
	access := a.oauth(p, strict+"token", form()).text("access_token")
	if access == "" {
		return nil, nil
	}
	return []*credential{a.bearer(w.name, a.name("issued"), access)}, func() reply {
		r := a.oauth(p, strict+"token", form())
		if r.status == http.StatusBadRequest && r.text("error") == "invalid_grant" {
			r.status = http.StatusOK
		}
		return r
	}
}
