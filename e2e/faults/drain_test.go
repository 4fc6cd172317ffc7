package faults_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

// callers are clients that keep their connections open and heed what they are told:
// "connection: close" and GOAWAY. They send POST, which no transport sends again once
// any of it was written.
type callers struct {
	done sync.WaitGroup
	mu   sync.Mutex
	ok   int
	// protocols counts answers by protocol.
	protocols map[string]int
	// refused counts connections that were never made: nothing was lost with them.
	refused int
	failed  []string
}

// listeners are the ports of a gateway.
type listeners struct{ http, https int }

// startCallers calls over HTTP/1.1 and HTTP/2 until ctx ends; at says which gateway
// is called next.
func startCallers(ctx context.Context, at func() listeners, token string) *callers {
	all := &callers{protocols: map[string]int{}}
	for i := range 8 {
		transport := &http.Transport{}
		url := func() string { return fmt.Sprintf("http://127.0.0.1:%d%s/load", at().http, framework.RoutePath) }
		if i%2 == 1 {
			transport.ForceAttemptHTTP2 = true
			transport.TLSClientConfig = &tls.Config{InsecureSkipVerify: true} // the way, not the peer, is looked at
			url = func() string { return fmt.Sprintf("https://127.0.0.1:%d%s/load", at().https, framework.RoutePath) }
		}
		client := &http.Client{Transport: transport, Timeout: soon}
		all.done.Go(func() {
			defer transport.CloseIdleConnections()
			for ctx.Err() == nil {
				all.call(client, url(), token)
			}
		})
	}
	return all
}

// only is the gateway of standalone.
func only(c *framework.ControlPlane) func() listeners {
	return func() listeners { return listeners{c.HTTP, c.HTTPS} }
}

func (a *callers) call(client *http.Client, url, token string) {
	req, err := http.NewRequest(http.MethodPost, url, http.NoBody) //nolint:noctx // bounded by the client
	if err == nil {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	var resp *http.Response
	if err == nil {
		resp, err = client.Do(req)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		a.refused++
	case err != nil:
		a.failed = append(a.failed, err.Error())
	default:
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			a.failed = append(a.failed, resp.Status)
			return
		}
		a.ok++
		a.protocols[resp.Proto]++
	}
}

func (a *callers) served() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.ok
}

var _ = Describe("a gateway that leaves", func() {
	var f *framework.Fixture
	start := func(args ...string) (c *framework.ControlPlane, token string, status int) {
		status = framework.FreePorts(1)[0]
		c = framework.NewControlPlane("standalone", append(args, "--status-listen", "127.0.0.1", "--status-port", fmt.Sprint(status))...).Start()
		f = framework.NewFixture(c)
		return c, f.MustMint(c.HTTPS), status
	}

	It("fails no request of callers that stop when /ready says so", func() {
		c, token, status := start("--drain-delay", "5s") // in which a busy machine has the callers stop
		Eventually(func() error { return framework.Ready(status) }, soon).Should(Succeed())
		ctx, stop := context.WithCancel(context.Background())
		defer stop()
		all := startCallers(ctx, only(c), token)
		Eventually(all.served, soon).Should(BeNumerically(">", 500))
		c.Signal(syscall.SIGTERM)
		Eventually(func() error { return framework.Ready(status) }, soon, 20*time.Millisecond).Should(MatchError(ContainSubstring("503")))
		before := all.served()
		Eventually(all.served, soon).Should(BeNumerically(">", before+50), "it serves during the delay")
		Expect(c.Running()).To(BeTrue())
		stop()
		all.done.Wait()
		Expect(c.Exit(soon)).To(Equal(0), c.Output())
		Expect(all.failed).To(BeEmpty())
		Expect(all.refused).To(BeZero())
		Expect(all.protocols).To(And(HaveKey("HTTP/1.1"), HaveKey("HTTP/2.0")))
		AddReportEntry("answered", all.protocols)
	})

	// When a port closes, the kernel resets the connections that nobody has accepted
	// yet. No request of those was looked at.
	It("answers every request that it has taken of callers that never stop, then refuses them", func() {
		c, token, _ := start("--drain-timeout", "6s")
		ctx, stop := context.WithCancel(context.Background())
		defer stop()
		all := startCallers(ctx, only(c), token)
		Eventually(all.served, soon).Should(BeNumerically(">", 500))
		c.Signal(syscall.SIGTERM)
		Expect(c.Exit(soon)).To(Equal(0), c.Output())
		stop()
		all.done.Wait()
		Expect(all.failed).To(Or(BeEmpty(), HaveEach(ContainSubstring("connection reset by peer"))))
		Expect(len(all.failed)).To(BeNumerically("<=", 8), "each caller met the closing port once at most")
		Expect(f.Upstream.Arrived.Load()).To(BeEquivalentTo(all.ok))
		Expect(all.refused).NotTo(BeZero())
	})
})
