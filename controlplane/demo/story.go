package demo

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

// The names of the demo's resources. They never change, so that the demo works again on a
// used state directory.
const (
	demoService  = "echo"
	demoRoute    = "echo"
	demoConsumer = "demo"
	demoClient   = "demo-app"
	demoSecret   = "demo-app-secret"
	demoPath     = "/echo"
)

// visitor uses the demo from outside, over the same ports as any user.
type visitor struct {
	http         *http.Client
	admin, mesh  string // base URLs of the administration and the mesh API
	plain, tls   string // base URLs of the gateway
	lastRevision string
	// adminToken is the token for the administration API, or empty.
	adminToken string
}

func newVisitor(caFile string, adminPort, meshPort, httpPort, httpsPort int) (*visitor, error) {
	pem, err := os.ReadFile(caFile) //nolint:gosec // our own state directory
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no certificate", caFile)
	}
	return &visitor{
		http: &http.Client{
			Timeout:   10 * time.Second,
			Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}},
		},
		admin: fmt.Sprintf("http://127.0.0.1:%d", adminPort),
		mesh:  fmt.Sprintf("http://127.0.0.1:%d", meshPort),
		plain: fmt.Sprintf("http://127.0.0.1:%d", httpPort),
		tls:   fmt.Sprintf("https://localhost:%d", httpsPort),
	}, nil
}

// response is a body with its status.
type response struct {
	status int
	body   []byte
}

func (r *response) text() string { return strings.TrimSpace(string(r.body)) }

func (r *response) field(name string) string {
	var m map[string]any
	if json.Unmarshal(r.body, &m) != nil {
		return ""
	}
	s, _ := m[name].(string)
	return s
}

func (c *visitor) do(ctx context.Context, method, u string, header http.Header, contentType string, body []byte) (*response, error) {
	req, err := http.NewRequestWithContext(ctx, method, u, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	for k, v := range header {
		req.Header[k] = v
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	if c.adminToken != "" && strings.HasPrefix(u, c.admin+"/") {
		req.Header.Set("Authorization", "Bearer "+c.adminToken)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	if v := resp.Header.Get("X-Mesh-Revision"); v != "" {
		c.lastRevision = v
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	return &response{resp.StatusCode, text}, err
}

// put creates or replaces a resource of the administration API.
func (c *visitor) put(ctx context.Context, path string, doc map[string]any) (*response, error) {
	body, err := json.Marshal(doc)
	if err != nil {
		return nil, err
	}
	r, err := c.do(ctx, http.MethodPut, c.admin+path, nil, "application/json", body)
	if err == nil && r.status != http.StatusOK {
		err = fmt.Errorf("PUT %s answered %d: %s", path, r.status, r.text())
	}
	return r, err
}

// seed creates the service, the protected route, the consumer and the application. It returns
// when every proxy has them.
func (c *visitor) seed(ctx context.Context, echoPort int) error {
	if _, err := c.put(ctx, "/services/"+demoService, map[string]any{"host": "127.0.0.1", "port": echoPort}); err != nil {
		return err
	}
	route := map[string]any{"service": map[string]any{"name": demoService}, "paths": []string{demoPath}}
	if _, err := c.put(ctx, "/routes/"+demoRoute, route); err != nil {
		return err
	}
	plugin := map[string]any{
		"name": "oauth2", "instance_name": "echo-oauth2",
		"config": map[string]any{"enable_client_credentials": true, "scopes": []string{"read", "write"}, "provision_key": "demo-provision-key"},
	}
	if _, err := c.put(ctx, "/services/"+demoService+"/plugins/echo-oauth2", plugin); err != nil {
		return err
	}
	if _, err := c.put(ctx, "/consumers/"+demoConsumer, map[string]any{"custom_id": "demo-4711"}); err != nil {
		return err
	}
	app := map[string]any{"name": "Demo application", "client_secret": demoSecret, "redirect_uris": []string{"https://app.example/callback"}}
	if _, err := c.put(ctx, "/consumers/"+demoConsumer+"/oauth2/"+demoClient, app); err != nil {
		return err
	}
	return c.converged(ctx)
}

// converged waits until every proxy has acknowledged the last write.
func (c *visitor) converged(ctx context.Context) error {
	r, err := c.do(ctx, http.MethodGet, c.admin+"/revisions/"+c.lastRevision+"?wait=15s", nil, "", nil)
	if err != nil {
		return err
	}
	var p struct {
		Proxies struct {
			Waiting  []string `json:"waiting"`
			Rejected []struct {
				Name  string `json:"name"`
				Error string `json:"error"`
			} `json:"rejected"`
		} `json:"proxies"`
	}
	if err := json.Unmarshal(r.body, &p); err != nil || r.status != http.StatusOK {
		return fmt.Errorf("GET /revisions/%s answered %d: %s", c.lastRevision, r.status, r.text())
	}
	if len(p.Proxies.Waiting) > 0 || len(p.Proxies.Rejected) > 0 {
		return fmt.Errorf("revision %s has not reached every proxy: waiting %v, rejected %v", c.lastRevision, p.Proxies.Waiting, p.Proxies.Rejected)
	}
	return nil
}

// token obtains an access token with client credentials.
func (c *visitor) token(ctx context.Context, base string) (*response, error) {
	form := url.Values{
		"grant_type": {"client_credentials"}, "client_id": {demoClient}, "client_secret": {demoSecret}, "scope": {"read"},
	}
	return c.do(ctx, http.MethodPost, base+demoPath+"/oauth2/token", nil, "application/x-www-form-urlencoded", []byte(form.Encode()))
}

// call sends a request to the protected route, with headers that clients must not send.
func (c *visitor) call(ctx context.Context, token string) (*response, error) {
	h := http.Header{"X-Consumer-Id": {"spoofed"}, "X_consumer_username": {"spoofed"}}
	if token != "" {
		h.Set("Authorization", "Bearer "+token)
	}
	return c.do(ctx, http.MethodGet, c.plain+demoPath+"/hello", h, "", nil)
}
