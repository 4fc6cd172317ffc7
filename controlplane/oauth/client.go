package oauth

import (
	"context"
	"encoding/base64"
	"errors"
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
	return s.judging.View(ctx, func(r store.Reader) error {
		t.Application = nil
		src, err := t.source(r)
		if err != nil {
			return err
		}
		app, err := src.Find(gateway.Applications, gateway.IndexClientID, id)
		if fault.Is(err, fault.NotFound) {
			return nil
		}
		if err == nil {
			t.Application = app
		}
		return err
	})
}

// authenticate finds the application and checks its secret. It returns the
// refusal of the last check that failed, or nil. Where nobody is redirected an
// unknown application is not yet a refusal, except in the strict profile: the
// caller has its own answer.
func (s *Server) authenticate(ctx context.Context, t *Request, c client, redirectless bool) (*Error, error) {
	if t.Config.Strict() && c.twice {
		return errTwoMethods, nil
	}
	if c.hasID && c.id != "" {
		if err := s.findClient(ctx, t, c.id); err != nil {
			return nil, err
		}
	}
	a := s.failures.attempt(t.guarded(), t.peer, t.Config.Strict())
	if wait := s.failures.wait(a); wait > 0 {
		return slowDown(wait), nil
	}
	refusal, err := s.checkSecret(ctx, t, c)
	if busy, ok := errors.AsType[*Error](err); ok {
		return busy, nil
	}
	if err != nil {
		return nil, err
	}
	wrong := t.Application == nil || (refusal != nil && refusal.Type == errClient.Type)
	if wait := s.failures.settle(a, !wrong); wait > 0 {
		return slowDown(wait), nil
	}
	switch {
	case refusal != nil:
		return refusal, nil
	case !redirectless:
		return t.checkRedirect(c), nil
	case t.Application == nil && t.Config.Strict():
		return c.refused(), nil
	}
	return nil, nil //nolint:nilnil // neither a refusal nor an error
}

// guarded names what a stranger could guess: the secret of a confidential
// application that exists.
func (t *Request) guarded() string {
	if t.Application == nil || t.Spec().ClientType == gateway.ClientPublic {
		return ""
	}
	return "client " + t.owner() + " " + t.Application.Name
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
	if uri, ok := t.params.text("redirect_uri"); ok && t.registered(uri) {
		return nil
	}
	return errRedirect
}

// checkSecret runs outside of transactions: hashing takes milliseconds. Of an
// unknown application it says nothing. Its error is a refusal that says nothing
// about the secret, or internal.
func (s *Server) checkSecret(ctx context.Context, t *Request, c client) (refusal *Error, err error) {
	if t.Application == nil {
		return nil, nil //nolint:nilnil // nothing to check
	}
	app := t.Spec()
	secret, isText := c.secret.(string)
	if app.ClientType == gateway.ClientPublic {
		if c.hasSecret && (!isText || strings.TrimSpace(secret) != "") {
			return errPublicSecret, nil
		}
		return nil, nil //nolint:nilnil // a public client has no secret
	}
	if !c.hasSecret || !isText || secret == "" {
		return c.refused(), nil
	}
	fits, err := s.hashing.fits(ctx, app, secret)
	if err != nil {
		return nil, err
	}
	if !fits {
		return c.refused(), nil
	}
	s.rehash(ctx, t, secret)
	return nil, nil //nolint:nilnil // it is the right one
}

func (c client) refused() *Error {
	if c.fromHeader {
		return errClientBasic
	}
	return errClient
}
