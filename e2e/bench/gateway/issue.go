package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
)

// What the bench makes for itself.
const (
	provisionKey = "bench-provision-key"
	clientID     = "bench-app"
	clientSecret = "bench-secret"
	redirectURI  = "https://app.example/callback"
)

// seed makes a service with one route, whose tokens every grant issues.
func (p *plane) seed(ctx context.Context) error {
	upstream, err := url.Parse(p.upstream.URL)
	if err != nil {
		return err
	}
	port, err := strconv.Atoi(upstream.Port())
	if err != nil {
		return err
	}
	if p.service, err = p.configure(ctx, "/services", map[string]any{"name": "bench", "host": "127.0.0.1", "port": port}); err != nil {
		return err
	}
	for _, w := range []struct {
		path string
		doc  map[string]any
	}{
		{"/services/bench/routes", map[string]any{"name": "route-0", "paths": []string{routePath(0)}}},
		{"/services/bench/plugins", map[string]any{"name": "oauth2", "config": map[string]any{
			"enable_client_credentials": true, "enable_authorization_code": true, "enable_password_grant": true, "provision_key": provisionKey, "scopes": []string{"email", "profile"},
		}}},
		{"/consumers", map[string]any{"username": "bench", "custom_id": "bench-4711"}},
	} {
		if _, err := p.configure(ctx, w.path, w.doc); err != nil {
			return err
		}
	}
	p.application, err = p.configure(ctx, "/consumers/bench/oauth2", map[string]any{
		"name": "bench", "client_id": clientID, "client_secret": clientSecret, "redirect_uris": []string{redirectURI},
	})
	if err != nil {
		return err
	}
	return p.converged(ctx)
}

// routePath is the path of one of many routes.
func routePath(i int) string { return fmt.Sprintf("/bench/%d/", i) }

// grantsByName are the grants that can be measured. Each returns an operation
// that gets one token.
var grantsByName = map[string]func(ctx context.Context, p *plane, clients int) (operation, error){
	"client_credentials": clientCredentials,
	"authorization_code": authorizationCode,
	"password":           password,
	"refresh_token":      refresh,
}

// issued is the answer of an issuing endpoint.
type issued struct {
	AccessToken  string `json:"access_token"`
	RefreshToken string `json:"refresh_token"`
	RedirectURI  string `json:"redirect_uri"`
}

// ask asks an issuing endpoint, as the bench's application.
func (p *plane) ask(ctx context.Context, endpoint string, form url.Values) (*issued, error) {
	form.Set("client_id", clientID)
	_, text, err := p.send(ctx, http.MethodPost, fmt.Sprintf("https://localhost:%d%soauth2/%s", p.HTTPS, routePath(0), endpoint), "application/x-www-form-urlencoded", "", form.Encode())
	if err != nil {
		return nil, err
	}
	got := &issued{}
	return got, json.Unmarshal(text, got)
}

// token asks for a token and expects one.
func (p *plane) token(ctx context.Context, grant string, more url.Values) (*issued, error) {
	form := url.Values{"grant_type": {grant}, "client_secret": {clientSecret}}
	for k, v := range more {
		form[k] = v
	}
	got, err := p.ask(ctx, "token", form)
	if err == nil && got.AccessToken == "" {
		err = fmt.Errorf("no token by %s", grant)
	}
	return got, err
}

func clientCredentials(_ context.Context, p *plane, _ int) (operation, error) {
	return func(ctx context.Context, _ int) error {
		_, err := p.token(ctx, "client_credentials", url.Values{"scope": {"email"}})
		return err
	}, nil
}

// user is what the authorisation backend adds to a request.
func user() url.Values {
	return url.Values{"provision_key": {provisionKey}, "authenticated_userid": {"user-4711"}, "scope": {"email profile"}}
}

// authorizationCode counts both requests, that for the code and its exchange,
// as one token.
func authorizationCode(_ context.Context, p *plane, _ int) (operation, error) {
	return func(ctx context.Context, _ int) error {
		form := user()
		form.Set("response_type", "code")
		got, err := p.ask(ctx, "authorize", form)
		if err != nil {
			return err
		}
		back, err := url.Parse(got.RedirectURI)
		if err != nil {
			return err
		}
		_, err = p.token(ctx, "authorization_code", url.Values{"code": back.Query()["code"]})
		return err
	}, nil
}

func password(_ context.Context, p *plane, _ int) (operation, error) {
	return func(ctx context.Context, _ int) error {
		_, err := p.token(ctx, "password", user())
		return err
	}, nil
}

// refresh renews, in each client, the token that it got last.
func refresh(ctx context.Context, p *plane, clients int) (operation, error) {
	last := make([]string, clients)
	for i := range last {
		got, err := p.token(ctx, "password", user())
		if err != nil {
			return nil, err
		}
		last[i] = got.RefreshToken
	}
	return func(ctx context.Context, client int) error {
		got, err := p.token(ctx, "refresh_token", url.Values{"refresh_token": {last[client]}})
		if err == nil {
			last[client] = got.RefreshToken
		}
		return err
	}, nil
}
