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

// stormRate is how many random tokens the strangers send in a second, at most: more
// than that is a flood of connections, which is the kernel's to bear.
const stormRate = 10_000

// strangers send random tokens until stopped: some wait for their answers, some
// reset their connections at once, some when the first of several requests has been
// answered. sent counts requests.
func strangers(port, workers int, stop <-chan struct{}, sent *atomic.Int64) *sync.WaitGroup {
	var wg sync.WaitGroup
	leave := make(chan struct{}, stormRate/100)
	wg.Go(func() {
		defer close(leave)
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
			}
			for range min(stormRate/1000, cap(leave)-len(leave)) {
				leave <- struct{}{}
			}
		}
	})
	for n := range workers {
		wg.Go(func() {
			client := &http.Client{Transport: &http.Transport{}, Timeout: 10 * time.Second}
			defer client.CloseIdleConnections()
			for range leave {
				sent.Add(1)
				if n%2 == 0 {
					_, _ = framework.Do(client, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d%s/x", port, framework.RoutePath),
						http.Header{"Authorization": {"Bearer " + rand.Text()}}, "")
					continue
				}
				requests := strange()
				for range 7 {
					if _, more := <-leave; !more {
						break
					}
					sent.Add(1)
					requests += strange()
				}
				sendAndReset(port, requests, n%4 == 1)
			}
		})
	}
	return &wg
}

// strange is a request with a random token.
func strange() string {
	return fmt.Sprintf("GET %s/x HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n", framework.RoutePath, rand.Text())
}

// sendAndReset resets its connection right after it has sent its requests, or
// after the first piece of an answer.
func sendAndReset(port int, requests string, waits bool) {
	conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port)) //nolint:noctx // a test
	if err != nil {
		return
	}
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	_, _ = conn.Write([]byte(requests))
	if waits {
		_, _ = conn.Read(make([]byte, 1))
	}
	_ = conn.(*net.TCPConn).SetLinger(0)
	_ = conn.Close()
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
		storm := time.Now()
		crowd := strangers(c.HTTP, 32, stop, &sent)
		defer crowd.Wait()
		var once sync.Once
		end := func() { once.Do(func() { close(stop) }) }
		defer end()
		Eventually(sent.Load, soon, 10*time.Millisecond).Should(BeNumerically(">", 2000))
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
		seen, took := sent.Load(), time.Since(storm)
		end()
		crowd.Wait()
		AddReportEntry("strangers", fmt.Sprintf("%d random tokens in %v, slowest first use %v, Redis left alone %d times", seen, took, slowest,
			strings.Count(c.Output(), "left alone for a while")))
		token := f.MustMint(c.HTTPS)
		Eventually(func() int { return status(token) }, soon, 20*time.Millisecond).Should(Equal(200))
	})
})
