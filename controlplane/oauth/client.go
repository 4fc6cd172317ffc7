package oauth

import (
	"encoding/base64"
	"net/http"
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
}

// readClient extracts client credentials. Both parameters win over the header;
// a header that cannot be read is still the source, so that the answer is a 401.
// Source: RFC 6749 section 2.3.1.
func readClient(p params, header http.Header, name string) client {
	id, isText := p.text("client_id")
	if p.has("client_id") && p.has("client_secret") {
		return client{id: id, hasID: isText, secret: p["client_secret"], hasSecret: true}
	}
	if v := header.Values(name); len(v) > 0 {
		c := client{fromHeader: true}
		c.id, c.secret, c.hasID, c.hasSecret = basic(v[0])
		return c
	}
	return client{id: id, hasID: isText}
}

// basic decodes "Basic base64(id:secret)".
func basic(v string) (id string, secret any, hasID, hasSecret bool) {
	scheme, rest, _ := strings.Cut(v, " ")
	if scheme != "Basic" && scheme != "basic" {
		return "", nil, false, false
	}
	raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(rest))
	if err != nil {
		return "", nil, false, false
	}
	id, s, hasSecret := strings.Cut(string(raw), ":")
	return id, s, id != "", hasSecret
}

// authenticate finds the application and checks its secret. It returns the
// refusal of the last check that failed, or nil. For a grant that needs no
// redirect URI an unknown application is not yet a refusal: the grant answers.
func (s *Server) authenticate(r store.Reader, scope string, t *Request, c client, redirectless bool) (*Error, error) {
	if c.hasID && c.id != "" {
		app, err := r.Find(gateway.Applications, scope, gateway.IndexClientID, c.id)
		if err != nil && !fault.Is(err, fault.NotFound) {
			return nil, err
		}
		t.Application = app
	}
	var refusal *Error
	if !redirectless {
		refusal = checkRedirect(t, c)
	}
	if t.Application == nil {
		return refusal, nil
	}
	if e := s.checkSecret(t.Spec(), c); e != nil {
		refusal = e
	}
	return refusal, nil
}

func checkRedirect(t *Request, c client) *Error {
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

func (s *Server) checkSecret(app *gateway.Application, c client) *Error {
	secret, isText := c.secret.(string)
	if app.ClientType == gateway.ClientPublic {
		if c.hasSecret && (!isText || strings.TrimSpace(secret) != "") {
			return errPublicSecret
		}
		return nil
	}
	if !c.hasSecret || !isText || secret == "" || !gateway.VerifySecret(app.ClientSecret, secret) {
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
