package faults_test

import (
	"crypto/rand"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

// strangers send random tokens until stopped: some wait for their answers, some
// reset their connections at once. sent counts requests.
func strangers(port, workers int, stop <-chan struct{}, sent *atomic.Int64) *sync.WaitGroup {
	var wg sync.WaitGroup
	running := func() bool {
		select {
		case <-stop:
			return false
		default:
			return true
		}
	}
	for n := range workers {
		wg.Go(func() {
			client := &http.Client{Transport: &http.Transport{}, Timeout: 10 * time.Second}
			defer client.CloseIdleConnections()
			for running() {
				sent.Add(1)
				if n%2 == 0 {
					_, _ = framework.Do(client, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d%s/x", port, framework.RoutePath),
						http.Header{"Authorization": {"Bearer " + rand.Text()}}, "")
					continue
				}
				conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
				if err != nil {
					continue
				}
				for range 8 {
					_, _ = fmt.Fprintf(conn, "GET %s/x HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n", framework.RoutePath, rand.Text())
				}
				_ = conn.(*net.TCPConn).SetLinger(0)
				_ = conn.Close()
			}
		})
	}
	return &wg
}

var _ = Describe("strangers with random tokens", func() {
	It("neither stop the embedded cache nor starve cold good tokens", func() {
		c := framework.NewControlPlane("standalone").Start()
		f := framework.NewFixture(c)
		var good []string
		for range 40 {
			good = append(good, f.MustMint(c.HTTPS))
		}
		stop := make(chan struct{})
		var sent atomic.Int64
		crowd := strangers(c.HTTP, 32, stop, &sent)
		defer crowd.Wait()
		var once sync.Once
		end := func() { once.Do(func() { close(stop) }) }
		defer end()
		Eventually(sent.Load, 30*time.Second, 10*time.Millisecond).Should(BeNumerically(">", 2000))
		// Somebody else: turns go by address.
		friend := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
			DialContext: (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}).DialContext,
		}}
		defer friend.CloseIdleConnections()
		status := func(token string) int {
			r, err := framework.Do(friend, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d%s/x", c.HTTP, framework.RoutePath),
				http.Header{"Authorization": {"Bearer " + token}}, "")
			Expect(err).NotTo(HaveOccurred())
			return r.Status
		}
		var slowest time.Duration
		for _, token := range good { // each for the first time
			begun := time.Now()
			Expect(status(token)).To(Equal(200))
			slowest = max(slowest, time.Since(begun))
			f.Must(204, http.MethodDelete, "/oauth2_tokens/"+token, nil)
			Expect(status(token)).To(Equal(401))
		}
		seen := sent.Load()
		end()
		crowd.Wait()
		AddReportEntry("strangers", fmt.Sprintf("%d random tokens, slowest first use %v, Redis left alone %d times", seen, slowest,
			strings.Count(c.Output(), "left alone for a while")))
		token := f.MustMint(c.HTTPS)
		Eventually(func() int { return status(token) }, 20*time.Second, 20*time.Millisecond).Should(Equal(200))
	})
})
