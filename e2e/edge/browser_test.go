package edge_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

// read reads a response to its end.
func read(resp *http.Response) *framework.Response {
	text, err := io.ReadAll(resp.Body)
	ExpectWithOffset(2, err).NotTo(HaveOccurred())
	return &framework.Response{Status: resp.StatusCode, Header: resp.Header, Body: string(text)}
}

// browse sends a request as a browser would, that is with headers that a page
// cannot choose.
func browse(method, base, path, host string, header http.Header, body io.Reader) *framework.Response {
	req, err := http.NewRequest(method, base+path, body)
	Expect(err).NotTo(HaveOccurred())
	for k, v := range header {
		req.Header[k] = v
	}
	if host != "" {
		req.Host = host
	}
	resp, err := f.HTTP.Do(req)
	Expect(err).NotTo(HaveOccurred())
	defer func() { _ = resp.Body.Close() }()
	return read(resp)
}

var _ = Describe("an API on loopback", func() {
	// bases are the APIs with a path of each that answers 200.
	bases := func() map[string]string {
		return map[string]string{
			fmt.Sprintf("http://127.0.0.1:%d", c.Admin):       "/services",
			fmt.Sprintf("https://localhost:%d", c.AdminTLS):   "/services",
			fmt.Sprintf("http://127.0.0.1:%d", c.Mesh):        "/",
			fmt.Sprintf("http://127.0.0.1:%d", c.Diagnostics): "/metrics",
		}
	}

	It("refuses what a foreign page makes a browser send", func() {
		foreign := []struct {
			host   string
			header http.Header
		}{
			{"evil.example", nil},
			{"evil.example:80", nil},
			{"127.0.0.1.evil.example", nil},
			{"localhost.evil.example", nil},
			{"localhost.", nil},
			{"169.254.169.254", nil},
			{"", http.Header{"Origin": {"https://evil.example"}}},
			{"", http.Header{"Origin": {"null"}}},
			{"", http.Header{"Origin": {"http://localhost"}}},
			{"", http.Header{"Origin": {"http://127.0.0.1:1"}}},
			{"", http.Header{"Origin": {"http://127.0.0.1:1", "https://evil.example"}}},
			{"", http.Header{"Sec-Fetch-Site": {"cross-site"}}},
			{"", http.Header{"Sec-Fetch-Site": {"same-site"}}},
			{"", http.Header{"Sec-Fetch-Site": {"none of these"}}},
			{"", http.Header{"X-Forwarded-For": {"127.0.0.1"}}},
			{"", http.Header{"X-Forwarded-Host": {"localhost"}}},
			{"", http.Header{"Forwarded": {"for=127.0.0.1"}}},
		}
		for base, path := range bases() {
			Expect(browse(http.MethodGet, base, path, "", nil, nil).Status).To(Equal(200), base)
			for _, t := range foreign {
				for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodOptions} {
					r := browse(method, base, path, t.host, t.header, nil)
					Expect(r.Status).To(Equal(403), "%s %s %+v", method, base, t)
					for name := range r.Header {
						Expect(name).NotTo(HavePrefix("Access-Control-"))
					}
				}
			}
		}
	})

	It("answers its own pages and tools, and lets nobody else read along", func() {
		for base, path := range bases() {
			for _, h := range []http.Header{{"Origin": {base}}, {"Origin": {base}, "Sec-Fetch-Site": {"same-origin"}}, {"Sec-Fetch-Site": {"none"}}} {
				r := browse(http.MethodGet, base, path, "", h, nil)
				Expect(r.Status).To(Equal(200), "%s %v", base, h)
				Expect(r.Header).NotTo(HaveKey("Access-Control-Allow-Origin"))
			}
		}
	})

	It("is not changed by what it refuses", func() {
		base := fmt.Sprintf("http://127.0.0.1:%d", c.Admin)
		for _, h := range []http.Header{{"Origin": {"https://evil.example"}}, {"Sec-Fetch-Site": {"cross-site"}}} {
			h.Set("Content-Type", formType)
			Expect(browse(http.MethodPost, base, "/consumers", "", h, strings.NewReader("username=evil")).Status).To(Equal(403))
			Expect(browse(http.MethodDelete, base, "/consumers/alice", "", h, nil).Status).To(Equal(403))
			h.Set("Content-Type", "text/plain")
			mesh := fmt.Sprintf("http://127.0.0.1:%d", c.Mesh)
			r := browse(http.MethodPost, mesh, "/tokens/gateway", "", h, strings.NewReader(`{"name":"evil"}`))
			Expect(r.Status).To(Equal(403), "no node token for a web page")
		}
		f.Must(404, http.MethodGet, "/consumers/evil", nil)
		f.Must(200, http.MethodGet, "/consumers/alice", nil)
	})
})
