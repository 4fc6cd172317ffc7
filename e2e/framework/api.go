package framework

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
)

// API is a client of a control plane's HTTP interfaces.
type API struct {
	c    *ControlPlane
	HTTP *http.Client
	// Revision of the last write.
	Revision string
}

// API returns a client that trusts the control plane's CA.
func (c *ControlPlane) API() *API {
	return &API{c: c, HTTP: TrustingClient(c.CAFile())}
}

// TrustingClient returns an HTTP client with one root, and no shared connections.
func TrustingClient(caFile string) *http.Client {
	pem, err := os.ReadFile(caFile)
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	pool := x509.NewCertPool()
	gomega.Expect(pool.AppendCertsFromPEM(pem)).To(gomega.BeTrue())
	t := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, MaxIdleConnsPerHost: 100}
	ginkgo.DeferCleanup(t.CloseIdleConnections)
	return &http.Client{Transport: t, Timeout: 30 * time.Second}
}

// Response is an answer that was read to its end.
type Response struct {
	Status int
	Header http.Header
	Body   string
}

// JSON decodes the body.
func (r *Response) JSON() map[string]any {
	var m map[string]any
	gomega.ExpectWithOffset(1, json.Unmarshal([]byte(r.Body), &m)).To(gomega.Succeed(), r.Body)
	return m
}

// Do sends a request; a failure to get an answer is an error.
func Do(client *http.Client, method, u string, header http.Header, body string) (*Response, error) {
	req, err := http.NewRequest(method, u, bytes.NewReader([]byte(body))) //nolint:noctx // a test
	if err != nil {
		return nil, err
	}
	for k, v := range header {
		req.Header[k] = v
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	return &Response{resp.StatusCode, resp.Header, string(text)}, err
}

// Admin calls the gateway administration API with a JSON document (or none).
func (a *API) Admin(method, path string, doc any) *Response {
	var body []byte
	header := http.Header{}
	if doc != nil {
		body, _ = json.Marshal(doc)
		header.Set("Content-Type", "application/json")
	}
	r, err := Do(a.HTTP, method, fmt.Sprintf("http://127.0.0.1:%d%s", a.c.Admin, path), header, string(body))
	gomega.ExpectWithOffset(1, err).NotTo(gomega.HaveOccurred())
	if v := r.Header.Get("X-Mesh-Revision"); v != "" {
		a.Revision = v
	}
	return r
}

// Must is Admin that expects a status.
func (a *API) Must(status int, method, path string, doc any) *Response {
	r := a.Admin(method, path, doc)
	gomega.ExpectWithOffset(1, r.Status).To(gomega.Equal(status), method+" "+path+": "+r.Body)
	return r
}

// Converged waits until all proxies have the last write.
func (a *API) Converged() {
	r := a.Admin(http.MethodGet, "/revisions/"+a.Revision+"?wait=20s", nil)
	gomega.ExpectWithOffset(1, r.Status).To(gomega.Equal(http.StatusOK), r.Body)
	proxies, _ := r.JSON()["proxies"].(map[string]any)
	gomega.ExpectWithOffset(1, proxies["waiting"]).To(gomega.BeEmpty(), r.Body)
	gomega.ExpectWithOffset(1, proxies["rejected"]).To(gomega.BeEmpty(), r.Body)
}

// WriteGatewayToken asks for a node token and writes it to a file.
func (a *API) WriteGatewayToken(name, file string) {
	r, err := Do(a.HTTP, http.MethodPost, fmt.Sprintf("http://127.0.0.1:%d/tokens/gateway", a.c.Mesh),
		http.Header{"Content-Type": {"application/json"}}, fmt.Sprintf(`{"name":%q,"validFor":"24h"}`, name))
	gomega.ExpectWithOffset(1, err).NotTo(gomega.HaveOccurred())
	gomega.ExpectWithOffset(1, r.Status).To(gomega.Equal(http.StatusOK), r.Body)
	gomega.ExpectWithOffset(1, os.WriteFile(file, []byte(r.Body), 0o600)).To(gomega.Succeed())
}

// Upstream is an HTTP server of the test that answers with what it received.
type Upstream struct {
	*httptest.Server
	// Held receives a value when a request whose path ends in /hold has arrived;
	// it is answered when Release is closed.
	Held, Release chan struct{}
	// Arrived counts requests.
	Arrived atomic.Int64
}

// StartUpstream starts it.
func StartUpstream() *Upstream {
	u := &Upstream{Held: make(chan struct{}, 100), Release: make(chan struct{})}
	// Nobody gets its port when a spec has closed it, as somebody may get one that the system has chosen.
	ln, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", FreePorts(1)[0]))
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	u.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u.Arrived.Add(1)
		if strings.HasSuffix(r.URL.Path, "/hold") {
			Hold(r, u.Held, u.Release)
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"method": r.Method, "path": r.URL.RequestURI(), "host": r.Host, "headers": r.Header})
	}))
	_ = u.Listener.Close() // nothing was accepted
	u.Listener = ln
	u.Start()
	ginkgo.DeferCleanup(func() { EndServer(u.Server) })
	return u
}

// Port is where the upstream listens.
func (u *Upstream) Port() string {
	p, err := url.Parse(u.URL)
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	return p.Port()
}

// AdminURL is the address of a path of the administration API.
func (a *API) AdminURL(path string) string {
	return fmt.Sprintf("http://127.0.0.1:%d%s", a.c.Admin, path)
}
