package enrol

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/identity"
)

// RenewPath is where a node gets a successor of the token that it presents. A gateway gets
// a token that lives longer, a proxy of a mesh the same token signed with the newest key. A
// gateway that shows a client certificate gets its first token and all others here.
const RenewPath = "/bootstrap/token"

// maxToken bounds a token in bytes.
const maxToken = 8 << 10

// Renew handles POST [RenewPath].
func (s *Server) Renew(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		s.fail(w, r, fault.New(fault.Unsupported, "only POST is supported"))
		return
	}
	token, err := s.successor(r)
	if err != nil {
		s.fail(w, r, denied(err))
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	_, _ = io.WriteString(w, token) //nolint:gosec // made here; a node that is gone asks again
}

// successor returns the token that a request asks for.
func (s *Server) successor(r *http.Request) (string, error) {
	if cert := shownBy(r); cert != nil {
		return s.certify(r, cert)
	}
	shown := bearer(r)
	token, err := s.Tokens.Renew(r.Context(), shown)
	if fault.Is(err, fault.Denied) && s.Mesh != nil && !identity.ClaimsGateway(shown) {
		token, err = s.Mesh.Tokens.Exchange(r.Context(), shown)
	}
	return token, err
}

// Renew asks for the successor of a token. Errors are those of [Enrol].
func Renew(ctx context.Context, client *http.Client, base, token string) (string, error) {
	return renew(ctx, client, base, http.Header{"Authorization": {"Bearer " + token}})
}

func renew(ctx context.Context, client *http.Client, base string, by http.Header) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+RenewPath, nil)
	if err != nil {
		return "", err
	}
	req.Header = by
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxToken))
	switch {
	case err != nil:
		return "", err
	case resp.StatusCode == http.StatusOK && len(text) > 0:
		return strings.TrimSpace(string(text)), nil
	case resp.StatusCode >= http.StatusInternalServerError:
		return "", fmt.Errorf("the control plane cannot renew tokens now: it answered %d", resp.StatusCode)
	}
	return "", &Refused{Status: resp.StatusCode, Text: cmp.Or(messageOf(text), strings.TrimSpace(string(text)))}
}
