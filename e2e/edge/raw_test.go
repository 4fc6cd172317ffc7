package edge_test

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	. "github.com/onsi/gomega"
)

// rawDeadline bounds a conversation over a raw socket.
const rawDeadline = 30 * time.Second

// roots is the control plane's authority.
func roots() *x509.CertPool {
	pem, err := os.ReadFile(c.CAFile())
	Expect(err).NotTo(HaveOccurred())
	pool := x509.NewCertPool()
	Expect(pool.AppendCertsFromPEM(pem)).To(BeTrue())
	return pool
}

// listeners are the two generated listeners.
var listeners = map[string]func() net.Conn{
	"plain TCP": func() net.Conn {
		conn, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", c.HTTP), rawDeadline)
		Expect(err).NotTo(HaveOccurred())
		return conn
	},
	"TLS": func() net.Conn {
		d := tls.Dialer{NetDialer: &net.Dialer{Timeout: rawDeadline}, Config: &tls.Config{
			RootCAs: roots(), ServerName: "localhost", MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"},
		}}
		conn, err := d.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", c.HTTPS)) //nolint:noctx // bounded by its timeout
		Expect(err).NotTo(HaveOccurred())
		return conn
	},
}

// answer is one response to what was sent over a raw socket.
type answer struct {
	Status int
	Header http.Header
	Body   string
}

// exchange writes bytes as they are and reads responses until the gateway
// closes the connection, which a final well-formed request asks for.
func exchange(dial func() net.Conn, raw string) []answer {
	conn := dial()
	defer func() { _ = conn.Close() }()
	Expect(conn.SetDeadline(time.Now().Add(rawDeadline))).To(Succeed())
	// The gateway may have closed the connection before it has read everything.
	_, _ = io.WriteString(conn, raw)
	in := bufio.NewReader(conn)
	method, _, _ := strings.Cut(raw, " ")
	var out []answer
	for {
		resp, err := http.ReadResponse(in, &http.Request{Method: method}) // what a HEAD gets has no body
		if err != nil {
			if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
				ExpectWithOffset(1, out).NotTo(BeEmpty(), "the gateway neither answered nor closed: %q", raw)
			}
			return out
		}
		body, err := io.ReadAll(resp.Body)
		ExpectWithOffset(1, err).NotTo(HaveOccurred())
		out = append(out, answer{resp.StatusCode, resp.Header, string(body)})
		if resp.Close {
			return out
		}
	}
}

// get is a request for a path with header lines; the connection ends with it.
func get(path string, lines ...string) string {
	return request("GET", path, append([]string{"Host: gateway.example"}, lines...), "")
}

func request(method, path string, lines []string, body string) string {
	return method + " " + path + " HTTP/1.1\r\n" + strings.Join(append(lines, "Connection: close"), "\r\n") + "\r\n\r\n" + body
}

// statuses of answers, in their order.
func statuses(answers []answer) []int {
	out := make([]int, len(answers))
	for i, a := range answers {
		out[i] = a.Status
	}
	return out
}
