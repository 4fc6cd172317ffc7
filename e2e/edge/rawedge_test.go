package edge_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

const handshake = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA=="

// lasts is the status with which a connection ends on which a client has written
// something and then waits; 0 for one that is closed without an answer.
func lasts(dial func() net.Conn, raw string, patience time.Duration) int {
	conn := dial()
	defer func() { _ = conn.Close() }()
	Expect(conn.SetDeadline(time.Now().Add(patience))).To(Succeed())
	_, err := io.WriteString(conn, raw)
	Expect(err).NotTo(HaveOccurred())
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		timeout, ok := errors.AsType[net.Error](err)
		ExpectWithOffset(1, ok && timeout.Timeout()).To(BeFalse(), "the gateway waits for ever: %q", raw)
		return 0
	}
	defer func() { _ = resp.Body.Close() }()
	return resp.StatusCode
}

var _ = Describe("a connection at the edge", func() {
	// An upstream that answers 200 to a handshake has opened no tunnel: what comes
	// next on the connection is a request like any other.
	It("is no tunnel after an Upgrade that was answered 200", func() {
		auth := "Authorization: Bearer " + f.MustMint(c.HTTPS)
		for name, dial := range listeners {
			By(name)
			for _, path := range []string{"/open/x", "/api/x"} {
				conn := dial()
				Expect(conn.SetDeadline(time.Now().Add(rawDeadline))).To(Succeed())
				seen := guarded.during(func() {
					atOpen := open.during(func() {
						_, err := io.WriteString(conn, "GET "+path+" HTTP/1.1\r\nHost: gateway.example\r\n"+auth+"\r\n"+handshake+"\r\n\r\n")
						Expect(err).NotTo(HaveOccurred())
						in := bufio.NewReader(conn)
						resp, err := http.ReadResponse(in, &http.Request{Method: http.MethodGet})
						Expect(err).NotTo(HaveOccurred())
						Expect(resp.StatusCode).To(Equal(200))
						_, err = io.Copy(io.Discard, resp.Body)
						Expect(err).NotTo(HaveOccurred())
						// It may have closed the connection already.
						_, _ = io.WriteString(conn, strings.Replace(smuggled, "\r\n\r\n", "\r\nX-Consumer-ID: spoofed\r\nConnection: close\r\n\r\n", 1))
						if resp, err = http.ReadResponse(in, &http.Request{Method: http.MethodGet}); err == nil {
							Expect(resp.StatusCode).To(Equal(401), "the next request is decided by itself")
						}
					})
					for _, r := range atOpen {
						Expect(r.URI).To(Equal("/open/x"))
					}
				})
				for _, r := range seen {
					Expect(r.URI).To(Equal("/x"), "nothing was smuggled")
				}
				_ = conn.Close() // the gateway may have been first
			}
		}
	})

	// All at once: each waits for a time-out of its own.
	It("ends if the client does not go on", func() {
		protect("stalls", map[string]any{"access_token_in_body": false})
		f.Must(200, http.MethodPatch, "/services/stalls", map[string]any{"read_timeout": 700, "write_timeout": 700})
		service := f.Must(200, http.MethodGet, "/services/stalls", nil).JSON()["id"]
		migrate("stalls-token", map[string]any{"service": map[string]any{"id": service}})
		f.Converged()
		const patience = 40 * time.Second
		done := make(chan struct{})
		for what, t := range map[string]struct {
			raw  string
			want []int
		}{
			"headers that do not end":      {"GET /open/x HTTP/1.1\r\nHost: a\r\nX-A:", []int{408, 0}},
			"a request line that does not": {"GET /op", []int{408, 0}},
			"a body that the service waits for": {"POST /stalls/x HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer stalls-token\r\nContent-Length: 10\r\n\r\nhi",
				[]int{408, 504}},
			"a body that the gateway waits for": {"POST /api/x HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n{", []int{408}},
		} {
			for name, dial := range listeners {
				go func() {
					defer GinkgoRecover()
					defer func() { done <- struct{}{} }()
					Expect(lasts(dial, t.raw, patience)).To(BeElementOf(t.want), "%s over %s", what, name)
				}()
			}
		}
		for range 8 {
			Eventually(done, patience+rawDeadline).Should(Receive())
		}
	})
})
