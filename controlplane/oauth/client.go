package oauth

import (
	"context"
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/store"
)

// client is what a request says of the client that sends it.
type client struct {
	id         string
	hasID      bool
	secret     any
	hasSecret  bool
	fromHeader bool
	// twice says that the client used two methods of authentication at once.
	twice bool
}

// readClient extracts client credentials. Both parameters win over the header;
// a header that cannot be read is still the source, so that the answer is a 401.
// Source: RFC 6749 section 2.3.1.
func (t *Request) readClient(header http.Header) client {
	id, isText := t.params.text("client_id")
	values := header.Values(t.Config.AuthHeaderName)
	if t.params.has("client_id") && t.params.has("client_secret") {
		c := client{id: id, hasID: isText, secret: t.params.values["client_secret"], hasSecret: true}
		c.twice = slices.ContainsFunc(values, func(v string) bool { return isBasic(v) })
		return c
	}
	if len(values) > 0 {
		c := client{fromHeader: true, twice: t.params.has("client_secret") && isBasic(values[0])}
		c.id, c.secret, c.hasID, c.hasSecret = basic(values[0], t.Config.Strict())
		return c
	}
	return client{id: id, hasID: isText}
}

func isBasic(v string) bool {
	scheme, _, _ := strings.Cut(v, " ")
	return scheme == "Basic" || scheme == "basic"
}

// basic decodes "Basic base64(id:secret)". encoded says that both are
// form-encoded, as RFC 6749 section 2.3.1 has it; clients of old send them bare.
func basic(v string, encoded bool) (id string, secret any, hasID, hasSecret bool) {
	if !isBasic(v) {
		return "", nil, false, false
	}
	_, rest, _ := strings.Cut(v, " ")
	raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(rest))
	if err != nil {
		return "", nil, false, false
	}
	id, s, hasSecret := strings.Cut(string(raw), ":")
	if encoded {
		var badID, badSecret error
		id, badID = url.QueryUnescape(id)
		s, badSecret = url.QueryUnescape(s)
		if badID != nil || badSecret != nil {
			return "", nil, false, false
		}
	}
	return id, s, id != "", hasSecret
}

// findClient looks the application up; an unknown one leaves t.Application nil.
func (s *Server) findClient(ctx context.Context, t *Request, id string) error {
	return s.Store.View(ctx, func(r store.Reader) error {
		app, err := r.Find(gateway.Applications, t.Scope, gateway.IndexClientID, id)
		if fault.Is(err, fault.NotFound) {
			return nil
		}
		t.Application = app
		return err
	})
}

// authenticate finds the application and checks its secret. It returns the
// refusal of the last check that failed, or nil. Where nobody is redirected an
// unknown application is not yet a refusal, except in the strict profile: the
// caller has its own answer.
func (s *Server) authenticate(ctx context.Context, t *Request, c client, redirectless bool) (*Error, error) {
	if t.Config.Strict() {
		if c.twice {
			return errTwoMethods, nil
		}
		if wait := s.failures.wait(t.peer, t.Scope, c.id); wait > 0 {
			return slowDown(wait), nil
		}
	}
	if c.hasID && c.id != "" {
		if err := s.findClient(ctx, t, c.id); err != nil {
			return nil, err
		}
	}
	refusal := s.check(ctx, t, c, redirectless)
	if t.Config.Strict() && (t.Application == nil || (refusal != nil && refusal.Type == errClient.Type)) {
		s.failures.failed(t.peer, t.Scope, c.id)
		if refusal == nil {
			refusal = c.refused()
		}
	}
	return refusal, nil
}

func (s *Server) check(ctx context.Context, t *Request, c client, redirectless bool) (refusal *Error) {
	if !redirectless {
		refusal = t.checkRedirect(c)
	}
	if t.Application == nil {
		return refusal
	}
	if e := t.checkSecret(c); e != nil {
		return e
	}
	if text, ok := c.secret.(string); ok && t.Spec().ClientType != gateway.ClientPublic {
		s.rehash(ctx, t, text)
	}
	return refusal
}

func (t *Request) checkRedirect(c client) *Error {
	if t.Application == nil || t.Spec().RedirectURIs == nil {
		return c.refused()
	}
	uris := t.Spec().RedirectURIs
	if !t.params.has("redirect_uri") {
		if len(uris) > 0 {
			return nil
		}
		return errRedirect
	}
	if uri, ok := t.params.text("redirect_uri"); ok && slices.Contains(uris, uri) {
		return nil
	}
	return errRedirect
}

// checkSecret runs outside of transactions: hashing takes milliseconds.
func (t *Request) checkSecret(c client) *Error {
	app := t.Spec()
	secret, isText := c.secret.(string)
	if app.ClientType == gateway.ClientPublic {
		if c.hasSecret && (!isText || strings.TrimSpace(secret) != "") {
			return errPublicSecret
		}
		return nil
	}
	if !c.hasSecret || !isText || secret == "" {
		return c.refused()
	}
	if !gateway.VerifySecret(app.ClientSecret, secret) && !gateway.VerifySecret(app.SecondarySecret, secret) {
		return c.refused()
	}
	return nil
}

func (c client) refused() *Error {
	if c.fromHeader {
		return errClientBasic
	}
	return errClient
}
