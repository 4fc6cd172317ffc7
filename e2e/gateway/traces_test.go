package gateway_test

import (
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	collectorv1 "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/meshgate/meshgate/e2e/framework"
)

// span is what these specs read of one.
type span struct{ service, name, trace, id, parent string }

// collector receives spans in OTLP over HTTP.
type collector struct {
	*httptest.Server
	mu    sync.Mutex
	spans []span
	// text is everything that was received, for people.
	text string
}

func startCollector() *collector {
	c := &collector{}
	c.Server = httptest.NewServer(c)
	DeferCleanup(func() { framework.EndServer(c.Server) })
	return c
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var m collectorv1.ExportTraceServiceRequest
	if err != nil || r.URL.Path != "/v1/traces" || proto.Unmarshal(body, &m) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.text += m.String()
	for _, rs := range m.ResourceSpans {
		service := ""
		for _, a := range rs.Resource.GetAttributes() {
			if a.Key == "service.name" {
				service = a.Value.GetStringValue()
			}
		}
		for _, ss := range rs.ScopeSpans {
			for _, s := range ss.Spans {
				c.spans = append(c.spans, span{service, s.Name, hex.EncodeToString(s.TraceId), hex.EncodeToString(s.SpanId), hex.EncodeToString(s.ParentSpanId)})
			}
		}
	}
}

// of returns the spans of a trace by service.
func (c *collector) of(trace string) map[string]span {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := map[string]span{}
	for _, s := range c.spans {
		if s.trace == trace {
			out[s.service] = s
		}
	}
	return out
}

func (c *collector) received() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.text
}

var _ = Describe("traces", func() {
	const (
		trace, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
		marker        = "what-nobody-may-read"
	)
	ask := func(f *framework.Fixture, g *framework.Gateway, flags string) *framework.Response {
		GinkgoHelper()
		form := url.Values{"grant_type": {"client_credentials"}, "client_id": {framework.ClientID}, "client_secret": {framework.ClientSecret}}
		r, err := framework.Do(f.HTTP, http.MethodPost, fmt.Sprintf("https://localhost:%d%s/oauth2/token?state=%s", g.HTTPS, framework.RoutePath, marker), http.Header{
			"Content-Type": {"application/x-www-form-urlencoded"}, "Traceparent": {"00-" + trace + "-" + parent + "-" + flags},
		}, form.Encode())
		Expect(err).NotTo(HaveOccurred())
		Expect(r.Status).To(Equal(200), r.Body)
		return r
	}

	It("lead from the client through the gateway to the OAuth server, and tell nothing else", func() {
		c := startCollector()
		GinkgoT().Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", c.URL)
		GinkgoT().Setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
		plane := framework.NewControlPlane("run", "--tracing-otlp-endpoint", c.URL, "--tracing-sample", "1").Start()
		g := framework.StartGateway(plane, "g")
		f := framework.NewFixture(plane)
		token := ask(f, g, "01").JSON()["access_token"].(string)
		Eventually(func() map[string]span { return c.of(trace) }, 30*time.Second, 50*time.Millisecond).
			Should(And(HaveKey("meshgate-gateway"), HaveKey("meshgate")), c.received)
		at := c.of(trace)
		Expect(at["meshgate-gateway"].parent).To(Equal(parent))
		Expect(at["meshgate"].parent).To(Equal(at["meshgate-gateway"].id))
		Expect(at["meshgate"].name).To(Equal("POST /oauth2/token"))
		Eventually(plane.Output, 30*time.Second, 50*time.Millisecond).Should(ContainSubstring("trace_id=" + trace))

		r, err := framework.Do(f.HTTP, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d%s/%s?access_token=%s", g.HTTP, framework.RoutePath, marker, token),
			http.Header{"Traceparent": {"00-1" + trace[1:] + "-" + parent + "-01"}}, "")
		Expect(err).NotTo(HaveOccurred())
		Expect(r.Status).To(Equal(200))
		Expect(r.Body).To(ContainSubstring("00-1"+trace[1:]), "the service is part of the trace")
		rpc, err := framework.Do(f.HTTP, http.MethodPost, fmt.Sprintf("http://127.0.0.1:%d%s/%s?access_token=%s", g.HTTP, framework.RoutePath, marker, token),
			http.Header{"Content-Type": {"application/grpc"}, "Traceparent": {"00-3" + trace[1:] + "-" + parent + "-01"}}, "")
		Expect(err).NotTo(HaveOccurred())
		Expect(rpc.Status).To(Equal(200))
		unsampled, err := framework.Do(f.HTTP, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d%s/x?access_token=%s", g.HTTP, framework.RoutePath, token),
			http.Header{"Traceparent": {"00-2" + trace[1:] + "-" + parent + "-00"}}, "")
		Expect(err).NotTo(HaveOccurred())
		Expect(unsampled.Status).To(Equal(200))
		f.Must(204, http.MethodDelete, "/oauth2_tokens/"+token, nil)
		Eventually(c.received, 30*time.Second, 50*time.Millisecond).Should(And(ContainSubstring("DELETE /oauth2_tokens/{key}"), ContainSubstring("api_")))
		Eventually(func() map[string]span { return c.of("1" + trace[1:]) }, 30*time.Second, 50*time.Millisecond).Should(HaveKey("meshgate-gateway"))
		Eventually(func() map[string]span { return c.of("3" + trace[1:]) }, 30*time.Second, 50*time.Millisecond).Should(HaveKey("meshgate-gateway"))
		Expect(c.of("2"+trace[1:])).To(BeEmpty(), "the client said not to")
		for _, secret := range []string{marker, token, framework.ClientSecret} {
			Expect(c.received()).NotTo(ContainSubstring(secret))
		}
	})

	It("are off by default, and those of others pass", func() {
		plane := framework.NewControlPlane("run").Start()
		g := framework.StartGateway(plane, "g")
		f := framework.NewFixture(plane)
		token := ask(f, g, "01").JSON()["access_token"].(string)
		header := "00-" + trace + "-" + parent + "-01"
		r, err := framework.Do(f.HTTP, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d%s/x", g.HTTP, framework.RoutePath),
			http.Header{"Authorization": {"Bearer " + token}, "Traceparent": {header}}, "")
		Expect(err).NotTo(HaveOccurred())
		Expect(r.Status).To(Equal(200))
		Expect(r.Body).To(ContainSubstring(header))
		Expect(plane.Output()).NotTo(ContainSubstring("trace_id"))
	})
})
