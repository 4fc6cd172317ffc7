package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// tellMesh performs the part of the story about the mesh.
func (n *narrator) tellMesh(ctx context.Context, m *demoMesh) error {
	call := func(token string) (*response, error) {
		h := http.Header{}
		if token != "" {
			h.Set("Authorization", "Bearer "+token)
		}
		return n.c.do(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/orders", m.call), h, "", nil)
	}
	r, err := call("")
	if err := expect(r, err, http.StatusOK, "URI=spiffe://default/web"); err != nil {
		return fmt.Errorf("web calls backend: %w", err)
	}
	n.say("web calls backend through two sidecars; backend is told who calls, by certificate", "200 "+header(r, "X-Forwarded-Client-Cert"))
	if _, err = n.c.do(ctx, http.MethodDelete, n.c.mesh+demoPermission, nil, "", nil); err == nil {
		err = n.c.converged(ctx)
	}
	if err != nil {
		return fmt.Errorf("take the permission away: %w", err)
	}
	r, err = call("")
	if err := expect(r, err, http.StatusForbidden, "RBAC"); err != nil {
		return fmt.Errorf("web calls backend without permission: %w", err)
	}
	n.say("the permission is taken away; the same call on the same connection", fmt.Sprintf("%d %s", r.status, r.text()))
	if err := n.protect(ctx); err != nil {
		return err
	}
	r, err = call("")
	if err := expect(r, err, http.StatusUnauthorized, "The access token is missing"); err != nil {
		return fmt.Errorf("a protected service without a token: %w", err)
	}
	n.say("the permission is back, and backend demands tokens of the gateway's plugin", fmt.Sprintf("%d %s", r.status, r.text()))
	minted, err := n.c.token(ctx, n.c.tls)
	if err := expect(minted, err, http.StatusOK, `"access_token"`); err != nil {
		return fmt.Errorf("token over HTTPS: %w", err)
	}
	r, err = call(minted.field("access_token"))
	if err := expect(r, err, http.StatusOK, `"`+demoConsumer+`"`); err != nil {
		return fmt.Errorf("a protected service with a token: %w", err)
	}
	n.say("the same with a token; backend is told the consumer, too", "200 X-Consumer-Username: "+header(r, "X-Consumer-Username"))
	if _, err := n.c.do(ctx, http.MethodDelete, n.c.mesh+demoTokenAuth, nil, "", nil); err != nil {
		return fmt.Errorf("end the token check: %w", err)
	}
	return nil
}

// protect restores the permission and requires tokens on backend.
func (n *narrator) protect(ctx context.Context) error {
	if err := n.c.putMesh(ctx, demoPermission, allowAll()); err != nil {
		return err
	}
	policy, err := n.c.tokenAuth(ctx)
	if err != nil {
		return err
	}
	if err := n.c.putMeshJSON(ctx, demoTokenAuth, []byte(policy)); err != nil {
		return err
	}
	return n.c.converged(ctx)
}

// header returns a header that an echo upstream received.
func header(r *response, name string) string {
	var doc struct {
		Headers map[string]string `json:"headers"`
	}
	if json.Unmarshal(r.body, &doc) != nil {
		return ""
	}
	for k, v := range doc.Headers {
		if strings.EqualFold(k, name) {
			return v
		}
	}
	return ""
}
