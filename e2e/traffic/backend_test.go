package traffic_test

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

// backendHeader names the backend in its answers.
const backendHeader = "X-Backend"

// seen is what a backend saw of a request; it is its answer.
type seen struct {
	Host   string
	URI    string
	Header http.Header
	// Client is the subject of the client certificate.
	Client string
	Server string
}

// backend is a server whose answers tests choose.
type backend struct {
	*httptest.Server
	name string
	// status answers requests, health those for /health.
	status, health atomic.Int32
	// served counts requests, but those for /health.
	served atomic.Int64
	// held receives a value for each request to /hold, which are answered once
	// release is closed.
	held, release chan struct{}
}

func newBackend(name string) *backend {
	b := &backend{name: name, held: make(chan struct{}, 1000), release: make(chan struct{})}
	b.status.Store(http.StatusOK)
	b.health.Store(http.StatusOK)
	b.Server = httptest.NewUnstartedServer(http.HandlerFunc(b.serve))
	_ = b.Listener.Close() // nothing was accepted
	// Nobody gets its port when a spec has closed it, as somebody may get one that the system has chosen.
	ln, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", framework.FreePorts(1)[0]))
	Expect(err).NotTo(HaveOccurred())
	b.Listener = ln
	DeferCleanup(func() { framework.EndServer(b.Server) })
	return b
}

// startBackend starts a backend that speaks cleartext.
func startBackend(name string) *backend {
	b := newBackend(name)
	b.Start()
	return b
}

// startSecure starts a backend that speaks TLS.
func startSecure(name string, config *tls.Config) *backend {
	b := newBackend(name)
	b.TLS = config
	b.StartTLS()
	return b
}

func (b *backend) serve(w http.ResponseWriter, r *http.Request) {
	w.Header().Set(backendHeader, b.name)
	if strings.HasSuffix(r.URL.Path, "/health") {
		w.WriteHeader(int(b.health.Load()))
		return
	}
	b.served.Add(1)
	if strings.HasSuffix(r.URL.Path, "/hold") {
		framework.Hold(r, b.held, b.release)
	}
	got := seen{Host: r.Host, URI: r.RequestURI, Header: r.Header}
	if r.TLS != nil {
		got.Server = r.TLS.ServerName
		if len(r.TLS.PeerCertificates) > 0 {
			got.Client = r.TLS.PeerCertificates[0].Subject.CommonName
		}
	}
	w.WriteHeader(int(b.status.Load()))
	_ = json.NewEncoder(w).Encode(got) // the test sees what is missing
}

// address is host:port.
func (b *backend) address() string { return b.Listener.Addr().String() }

// target is a target of an upstream with a weight.
func (b *backend) target(weight int) document {
	return document{"target": b.address(), "weight": weight}
}

func decode(r *framework.Response) seen {
	var s seen
	ExpectWithOffset(1, json.Unmarshal([]byte(r.Body), &s)).To(Succeed(), r.Body)
	return s
}
