package examples_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"github.com/meshgate/meshgate/e2e/framework"
)

var _ = Describe("golang.org/x/oauth2", Ordered, func() {
	var p *protected
	var login string
	ctx := func() context.Context { return context.WithValue(context.Background(), oauth2.HTTPClient, f.HTTP) }

	BeforeAll(func() {
		p = protect("album", map[string]any{"enable_password_grant": true})
		p.application("album-phone", map[string]any{"client_type": "public"})
		login = p.login()
	})

	config := func(clientID, secret string, style oauth2.AuthStyle) *oauth2.Config {
		return &oauth2.Config{
			ClientID: clientID, ClientSecret: secret, RedirectURL: p.redirectURI, Scopes: []string{"email", "phone"},
			Endpoint: oauth2.Endpoint{AuthURL: login + "/authorize", TokenURL: p.url("/oauth2/token"), AuthStyle: style},
		}
	}
	// authorized is the query with which the user comes back.
	authorized := func(link, decision string) url.Values {
		back, err := url.Parse(browse(link, decision))
		ExpectWithOffset(1, err).NotTo(HaveOccurred())
		ExpectWithOffset(1, back.Host+back.Path).To(Equal("127.0.0.1:9/callback"))
		return back.Query()
	}

	It("gets a token by authorisation code with PKCE, and renews it", func() {
		for _, c := range []*oauth2.Config{
			config(p.clientID, p.secret, oauth2.AuthStyleInHeader),
			config(p.clientID, p.secret, oauth2.AuthStyleInParams),
			config("album-phone", "", oauth2.AuthStyleInParams),
		} {
			By(c.ClientID)
			verifier := oauth2.GenerateVerifier()
			back := authorized(c.AuthCodeURL("state-1", oauth2.S256ChallengeOption(verifier)), "allow")
			Expect(back.Get("state")).To(Equal("state-1"))
			_, err := c.Exchange(ctx(), back.Get("code"), oauth2.VerifierOption(oauth2.GenerateVerifier()))
			Expect(err).To(MatchError(ContainSubstring("invalid_grant")), "another verifier")
			token, err := c.Exchange(ctx(), back.Get("code"), oauth2.VerifierOption(verifier))
			Expect(err).NotTo(HaveOccurred())
			Expect(token.RefreshToken).NotTo(BeEmpty())
			got := told(p.call(c.Client(ctx(), token)))
			Expect(got.Get("X-Authenticated-Userid")).To(Equal("user-1"))
			Expect(got.Get("X-Authenticated-Scope")).To(Equal("email,phone"))
			Expect(got.Get("X-Credential-Identifier")).To(Equal(c.ClientID))
			_, err = c.Exchange(ctx(), back.Get("code"), oauth2.VerifierOption(verifier))
			Expect(err).To(HaveOccurred(), "a code is good once")

			renewed, err := c.TokenSource(ctx(), &oauth2.Token{RefreshToken: token.RefreshToken}).Token()
			Expect(err).NotTo(HaveOccurred())
			Expect(p.call(c.Client(ctx(), renewed)).Status).To(Equal(200))
			Expect(p.call(oauth2.NewClient(ctx(), oauth2.StaticTokenSource(token))).Status).To(Equal(401), "the old token went with its refresh token")
		}
	})

	It("is told who said no, and what was wrong", func() {
		c := config(p.clientID, p.secret, oauth2.AuthStyleInHeader)
		Expect(authorized(c.AuthCodeURL("s"), "deny")).To(Equal(url.Values{"error": {"access_denied"}, "state": {"s"}}))
		c.Scopes = []string{"everything"}
		got := authorized(c.AuthCodeURL("s"), "allow")
		Expect(got.Get("error")).To(Equal("invalid_scope"))
		Expect(got.Get("state")).To(Equal("s"))
		got = authorized(config("album-phone", "", oauth2.AuthStyleInParams).AuthCodeURL("s"), "allow")
		Expect(got.Get("error")).To(Equal("invalid_request"))
		Expect(got.Get("error_description")).To(Equal("code_challenge is required for public clients"))
	})

	It("gets a token by client credentials", func() {
		c := clientcredentials.Config{ClientID: p.clientID, ClientSecret: p.secret, Scopes: []string{"email"}, TokenURL: p.url("/oauth2/token")}
		got := told(p.call(c.Client(ctx())))
		Expect(got.Get("X-Credential-Identifier")).To(Equal(p.clientID))
		Expect(got).NotTo(HaveKey("X-Authenticated-Userid"))
	})

	It("gets a token by password, from the login application", func() {
		c := config(p.clientID, p.secret, oauth2.AuthStyleInHeader)
		c.Endpoint.TokenURL = login + "/token"
		token, err := c.PasswordCredentialsToken(ctx(), "ada", "correct horse")
		Expect(err).NotTo(HaveOccurred())
		Expect(token.RefreshToken).NotTo(BeEmpty())
		Expect(told(p.call(c.Client(ctx(), token))).Get("X-Authenticated-Userid")).To(Equal("user-1"))
		_, err = c.PasswordCredentialsToken(ctx(), "ada", "guess")
		Expect(err).To(MatchError(ContainSubstring("invalid_grant")))
		// The gateway's answer comes unchanged.
		form := url.Values{"grant_type": {"password"}, "client_id": {p.clientID}, "client_secret": {"wrong"}, "username": {"ada"}, "password": {"correct horse"}}
		r, err := framework.Do(f.HTTP, http.MethodPost, login+"/token", http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}, form.Encode())
		Expect(err).NotTo(HaveOccurred())
		Expect(r.Status).To(Equal(400))
		Expect(r.JSON()).To(Equal(map[string]any{"error": "invalid_client", "error_description": "Invalid client authentication"}))
	})
})

var _ = Describe("Authlib", Ordered, func() {
	// run runs the client against a route and returns what it saw.
	run := func(p *protected, login, what string) map[string]any {
		out := python([]string{
			"TOKEN_URL=" + p.url("/oauth2/token"), "INTROSPECT_URL=" + p.url("/oauth2/introspect"), "REVOKE_URL=" + p.url("/oauth2/revoke"),
			"CALL_URL=" + p.url("/x"), "AUTHORIZE_URL=" + login + "/authorize", "REDIRECT_URI=" + p.redirectURI,
			"CLIENT_ID=" + p.clientID, "CLIENT_SECRET=" + p.secret, "CA=" + c.CAFile(),
		}, "e2e/examples/testdata/client.py", what)
		var seen map[string]any
		ExpectWithOffset(1, json.Unmarshal([]byte(out), &seen)).To(Succeed(), out)
		return seen
	}

	It("gets tokens by client credentials", func() {
		p := protect("authlib-own", nil)
		for _, style := range []string{"client_secret_basic", "client_secret_post"} {
			Expect(run(p, "", "credentials-"+style)).To(Equal(map[string]any{"status": 200.0, "client": p.clientID, "user": nil}), style)
		}
	})

	It("gets tokens by authorisation code with PKCE and renews them", func() {
		p := protect("authlib-code", nil)
		Expect(run(p, p.login(), "code")).To(Equal(map[string]any{
			"state": true, "status": 200.0, "client": p.clientID, "user": "user-1", "renewed": 200.0, "old": 401.0,
		}))
	})

	It("introspects and revokes tokens of the strict profile", func() {
		p := protect("authlib-strict", map[string]any{"profile": "oauth2.1"})
		Expect(run(p, p.login(), "strict")).To(Equal(map[string]any{
			"before": map[string]any{"active": true, "scope": "email phone", "client_id": p.clientID, "sub": "user-1", "token_type": "bearer"},
			"status": 200.0, "revoked": 200.0, "after": map[string]any{"active": false}, "then": 401.0, "refreshed": "invalid_grant", "unknown": map[string]any{"active": false},
		}))
	})
})
