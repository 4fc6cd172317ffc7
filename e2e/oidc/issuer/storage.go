package main

import (
	"context"
	"crypto/subtle"
	"errors"
	"slices"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/google/uuid"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

// client gets tokens for itself with a secret (RFC 6749 section 4.4). Their claims are its
// own. What the interface asks about browsers is not answered: the embedded one is nil, and a
// request for it ends with a panic that the server tells of.
type client struct {
	op.Client
	id string
	// Secret is what it proves itself with.
	Secret string `json:"secret"`
	// Audience, Groups and Lifetime are those of its tokens. A lifetime below zero makes tokens
	// that have expired, so that no test waits for it.
	Audience []string `json:"audience"`
	Groups   []string `json:"groups"`
	Lifetime int      `json:"lifetime"`
}

func (c *client) GetID() string { return c.id }
func (c *client) GrantTypes() []oidc.GrantType {
	return []oidc.GrantType{oidc.GrantTypeClientCredentials}
}
func (c *client) AccessTokenType() op.AccessTokenType { return op.AccessTokenTypeJWT }
func (c *client) ClockSkew() time.Duration            { return 0 }
func (c *client) RestrictAdditionalAccessTokenScopes() func([]string) []string {
	return slices.Clone[[]string]
}

// request is what a client asks a token for. The client is the user of the token.
type request struct {
	*client
	scopes []string
}

func (r request) GetSubject() string    { return r.id }
func (r request) GetAudience() []string { return r.Audience }
func (r request) GetScopes() []string   { return r.scopes }

// storage answers the provider. As with clients, what only browsers need is nil.
type storage struct {
	op.Storage
	clients map[string]*client
	keys    keyring
}

// ClientCredentials implements [op.ClientCredentialsStorage].
func (s *storage) ClientCredentials(_ context.Context, id, secret string) (op.Client, error) {
	c, ok := s.clients[id]
	if !ok || subtle.ConstantTimeCompare([]byte(secret), []byte(c.Secret)) == 0 {
		return nil, errors.New("the client is not known, or its secret is wrong")
	}
	return c, nil
}

// ClientCredentialsTokenRequest implements [op.ClientCredentialsStorage].
func (s *storage) ClientCredentialsTokenRequest(_ context.Context, id string, scopes []string) (op.TokenRequest, error) {
	return request{s.clients[id], scopes}, nil
}

// CreateAccessToken implements [op.Storage].
func (s *storage) CreateAccessToken(_ context.Context, r op.TokenRequest) (id string, ends time.Time, err error) {
	return uuid.NewString(), time.Now().Add(time.Duration(s.clients[r.GetSubject()].Lifetime) * time.Second), nil
}

// GetPrivateClaimsFromScopes implements [op.Storage].
func (s *storage) GetPrivateClaimsFromScopes(_ context.Context, _, id string, _ []string) (map[string]any, error) {
	return map[string]any{"groups": s.clients[id].Groups}, nil
}

// SigningKey implements [op.Storage].
func (s *storage) SigningKey(context.Context) (op.SigningKey, error) { return s.keys.signs() }

// KeySet implements [op.Storage].
func (s *storage) KeySet(context.Context) ([]op.Key, error) { return s.keys.published() }

// SignatureAlgorithms implements [op.Storage].
func (s *storage) SignatureAlgorithms(context.Context) ([]jose.SignatureAlgorithm, error) {
	return []jose.SignatureAlgorithm{jose.RS256, jose.ES256}, nil
}

// Health implements [op.Storage].
func (s *storage) Health(context.Context) error {
	_, err := s.keys.all()
	return err
}
