package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

// maxAnswer bounds an answer of the gateway in bytes.
const maxAnswer = 1 << 20

// errUnknownClient says that no application has a client id.
var errUnknownClient = errors.New("no application has this client_id")

// gateway is a client of the gateway and of its administration API.
type gateway struct {
	http             *http.Client
	base, admin, key string
}

func newGateway(c *config) (*gateway, error) {
	roots, err := x509.SystemCertPool()
	if err != nil {
		return nil, err
	}
	if c.CAFile != "" {
		pem, err := os.ReadFile(c.CAFile)
		if err != nil {
			return nil, err
		}
		if !roots.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s holds no certificate", c.CAFile)
		}
	}
	return &gateway{
		http: &http.Client{
			Timeout:   10 * time.Second,
			Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, MaxIdleConnsPerHost: 10},
			// Secrets are sent to the gateway and to nobody that it names.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		base: strings.TrimSuffix(c.Gateway, "/"), admin: strings.TrimSuffix(c.Admin, "/"), key: c.ProvisionKey,
	}, nil
}

// application is what a user is told about who asks for access.
type application struct {
	Name         string   `json:"name"`
	RedirectURIs []string `json:"redirect_uris"`
	Consumer     struct {
		ID string `json:"id"`
	} `json:"consumer"`
	// Developer is the name of the consumer that owns the application.
	Developer string `json:"-"`
}

// application looks an application up by its client id.
func (g *gateway) application(ctx context.Context, clientID string) (*application, error) {
	var list struct {
		Data []application `json:"data"`
	}
	if err := g.read(ctx, "/oauth2?client_id="+url.QueryEscape(clientID), &list); err != nil {
		return nil, err
	}
	if len(list.Data) != 1 {
		return nil, errUnknownClient
	}
	found := &list.Data[0]
	var owner struct {
		Username string `json:"username"`
		CustomID string `json:"custom_id"`
	}
	if err := g.read(ctx, "/consumers/"+url.PathEscape(found.Consumer.ID), &owner); err != nil {
		return nil, err
	}
	if found.Developer = owner.Username; found.Developer == "" {
		found.Developer = owner.CustomID
	}
	return found, nil
}

// read gets a document of the administration API.
func (g *gateway) read(ctx context.Context, path string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, g.admin+path, nil)
	if err != nil {
		return err
	}
	answer, err := g.do(req)
	if err != nil {
		return err
	}
	if answer.status != http.StatusOK {
		return fmt.Errorf("the administration API answered %d", answer.status)
	}
	return json.Unmarshal(answer.body, into)
}

// post sends a form to one of the issuing endpoints as the authorisation
// backend: with the provision key, and with the Authorization header that the
// client sent, if any.
func (g *gateway) post(ctx context.Context, path string, form url.Values, authorization []string) (*answer, error) {
	form.Set("provision_key", g.key)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, g.base+path, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if len(authorization) > 0 {
		req.Header["Authorization"] = authorization
	}
	return g.do(req)
}

// answer is what the gateway said.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (g *gateway) do(req *http.Request) (*answer, error) {
	resp, err := g.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	return &answer{resp.StatusCode, resp.Header, body}, err
}

// authorize asks the gateway for a code, or in the implicit flow for a token.
// What it answers is where to send the user, whether it granted that or not.
// Source: requirement "POST /oauth2/authorize".
func (g *gateway) authorize(ctx context.Context, params url.Values, userID string, authorization []string) (string, error) {
	form := url.Values{"authenticated_userid": {userID}}
	for k, v := range params {
		form[k] = v
	}
	a, err := g.post(ctx, "/oauth2/authorize", form, authorization)
	if err != nil {
		return "", err
	}
	var said struct {
		RedirectURI string `json:"redirect_uri"`
		Description string `json:"error_description"`
	}
	if err := json.Unmarshal(a.body, &said); err != nil {
		return "", fmt.Errorf("the gateway answered %d: %w", a.status, err)
	}
	if said.RedirectURI == "" { // it has no address that is safe to send anybody to
		return "", fmt.Errorf("the gateway answered %d: %s", a.status, said.Description)
	}
	return said.RedirectURI, nil
}
