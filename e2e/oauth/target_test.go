package oauth_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"

	"github.com/meshgate/meshgate/controlplane/oauth/oauthtest"
	"github.com/meshgate/meshgate/e2e/framework"
)

// gateway is an oauthtest.Target: a control plane and the listeners of its Envoy.
type gateway struct {
	c      *framework.ControlPlane
	api    *framework.API
	http1  *http.Client
	http2  *http.Client
	behind bool
}

func newGateway(c *framework.ControlPlane) *gateway {
	g := &gateway{c: c, api: c.API()}
	trusting := framework.TrustingClient(c.CAFile()).Transport.(*http.Transport)
	g.http1 = client(trusting, func(p *http.Protocols) { p.SetHTTP1(true) })
	g.http2 = client(trusting, func(p *http.Protocols) { p.SetHTTP2(true) })
	return g
}

// client returns one that speaks what it is told and follows no redirects.
func client(from *http.Transport, speak func(*http.Protocols)) *http.Client {
	t := &http.Transport{TLSClientConfig: from.TLSClientConfig.Clone(), Protocols: new(http.Protocols)}
	speak(t.Protocols)
	DeferCleanup(t.CloseIdleConnections)
	return &http.Client{
		Transport: t, Timeout: 30 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Admin implements oauthtest.Target.
func (g *gateway) Admin(method, path string, doc any) (status int, body []byte, err error) {
	var raw []byte
	if doc != nil {
		if raw, err = json.Marshal(doc); err != nil {
			return 0, nil, err
		}
	}
	r, err := framework.Do(g.api.HTTP, method, g.api.AdminURL(path), http.Header{"Content-Type": {"application/json"}}, string(raw))
	if err != nil {
		return 0, nil, err
	}
	if revision := r.Header.Get("X-Mesh-Revision"); revision != "" {
		g.api.Revision, g.behind = revision, true
	}
	return r.Status, []byte(r.Body), nil
}

// Send implements oauthtest.Target.
func (g *gateway) Send(r oauthtest.Request) (*oauthtest.Response, error) {
	if g.behind {
		g.api.Converged()
		g.behind = false
	}
	base := fmt.Sprintf("https://localhost:%d", g.c.HTTPS)
	if r.Scheme == "http" {
		base = fmt.Sprintf("http://127.0.0.1:%d", g.c.HTTP)
	}
	kind, body := r.Content()
	req, err := http.NewRequest(r.Method, base+r.Path, strings.NewReader(body)) //nolint:noctx // a test
	if err != nil {
		return nil, err
	}
	for name, values := range r.Headers {
		req.Header[http.CanonicalHeaderKey(name)] = values
	}
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	if r.Host != "" {
		req.Host = r.Host
	}
	via := g.http1
	if r.HTTP2 {
		via = g.http2
	}
	resp, err := via.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	return &oauthtest.Response{Status: resp.StatusCode, Header: resp.Header, Body: string(text)}, err
}
