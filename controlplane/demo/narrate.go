package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
)

// narrator tells the demo's story step by step, each with the observed result.
type narrator struct {
	out  io.Writer
	c    *visitor
	step int
}

func (n *narrator) say(what, observed string) {
	n.step++
	_, _ = fmt.Fprintf(n.out, "%2d. %s\n    %s\n", n.step, what, strings.ReplaceAll(observed, "\n", "\n    "))
}

// expect fails the story unless the result of a step is the expected one.
func expect(r *response, err error, status int, part string) error {
	if err != nil {
		return err
	}
	if r.status != status || !strings.Contains(r.text(), part) {
		return fmt.Errorf("observed %d %s, expected %d with %q", r.status, r.text(), status, part)
	}
	return nil
}

// tell performs the story, and returns an error for the first result that differs.
func (n *narrator) tell(ctx context.Context, envoy string) error {
	n.say("Envoy is up, with the filter inside", envoy)
	r, err := n.c.call(ctx, "")
	if err := expect(r, err, http.StatusUnauthorized, "The access token is missing"); err != nil {
		return fmt.Errorf("call without a token: %w", err)
	}
	n.say("GET "+demoPath+" without a token", fmt.Sprintf("%d %s", r.status, r.text()))
	r, err = n.c.token(ctx, n.c.plain)
	if err := expect(r, err, http.StatusBadRequest, "You must use HTTPS"); err != nil {
		return fmt.Errorf("token over HTTP: %w", err)
	}
	n.say("ask for a token over plain HTTP", fmt.Sprintf("%d %s", r.status, r.text()))
	r, err = n.c.token(ctx, n.c.tls)
	if err := expect(r, err, http.StatusOK, `"access_token"`); err != nil {
		return fmt.Errorf("token over HTTPS: %w", err)
	}
	token := r.field("access_token")
	n.say("ask for a token over HTTPS, by client credentials", fmt.Sprintf("%d token of %d characters, expires_in present: %t", r.status, len(token), strings.Contains(r.text(), "expires_in")))
	r, err = n.c.call(ctx, token)
	if err := expect(r, err, http.StatusOK, `"`+demoConsumer+`"`); err != nil {
		return fmt.Errorf("call with the token: %w", err)
	}
	seen, err := seenHeaders(r)
	if err != nil {
		return err
	}
	n.say("GET "+demoPath+" with the token; the upstream sees", seen)
	r, err = n.c.do(ctx, http.MethodDelete, n.c.admin+"/oauth2_tokens/"+token, nil, "", nil)
	if err := expect(r, err, http.StatusNoContent, ""); err != nil {
		return fmt.Errorf("delete the token: %w", err)
	}
	n.say("DELETE the token", fmt.Sprintf("%d", r.status))
	r, err = n.c.call(ctx, token)
	if err := expect(r, err, http.StatusUnauthorized, "invalid or has expired"); err != nil {
		return fmt.Errorf("the call after DELETE: %w", err)
	}
	n.say("the very next call with it", fmt.Sprintf("%d %s", r.status, r.text()))
	return nil
}

// seenHeaders lists the identity headers that the upstream received. It fails if one that the
// client made up is among them.
func seenHeaders(r *response) (string, error) {
	var doc struct {
		Headers map[string]string `json:"headers"`
	}
	if err := json.Unmarshal(r.body, &doc); err != nil {
		return "", fmt.Errorf("the upstream's answer cannot be read: %w", err)
	}
	var lines []string
	for name, value := range doc.Headers {
		if value == "spoofed" {
			return "", fmt.Errorf("the upstream received the client's own %s", name)
		}
		if l := strings.ToLower(name); strings.HasPrefix(l, "x-consumer") || strings.HasPrefix(l, "x-credential") || strings.HasPrefix(l, "x-authenticated") {
			lines = append(lines, name+": "+value)
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n"), nil
}
