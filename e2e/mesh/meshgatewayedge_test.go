package mesh_test

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/meshgate/meshgate/e2e/framework"
)

// unanswered is what an exchange ends with that gets no answer.
const unanswered = "unanswered"

// strange are requests as a client may write them who looks for two readers of one text: the status
// of the answer, or the service that must get it, with the host and X-A that it gets. What is passed on
// must be what the route was chosen by, and can be read in one way.
var strange = []struct{ what, request, want string }{
	{"length and chunks", "POST / HTTP/1.1\r\nHost: any.example\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400"},
	{"two lengths", "POST / HTTP/1.1\r\nHost: any.example\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\naaaa", "400"},
	{"an odd length", "POST / HTTP/1.1\r\nHost: any.example\r\nContent-Length: +4\r\n\r\naaaa", "400"},
	{"another coding", "POST / HTTP/1.1\r\nHost: any.example\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", "501"},
	{"two hosts", "GET / HTTP/1.1\r\nHost: any.example\r\nHost: ledger.example\r\n\r\n", "400"},
	{"no host", "GET / HTTP/1.1\r\n\r\n", "400"},
	{"a folded line", "GET / HTTP/1.1\r\nHost: any.example\r\nX-A: a\r\n b\r\n\r\n", `backend-1 any.example ["a b"]`},
	{"a zero byte", "GET / HTTP/1.1\r\nHost: any.example\r\nX-A: a\x00b\r\n\r\n", "400"},
	{"a lone return", "GET / HTTP/1.1\r\nHost: any.example\r\nX-A: a\rb\r\n\r\n", `backend-1 any.example ["ab"]`},
	{"a space before the colon", "GET / HTTP/1.1\r\nHost: any.example\r\nX-A : a\r\n\r\n", "400"},
	{"a header that looks like another", "GET / HTTP/1.1\r\nHost: any.example\r\nX_Consumer_Id: a\r\n\r\n", "400"},
	{"an old version", "GET / HTTP/1.0\r\nHost: any.example\r\n\r\n", "426"},
	{"a tunnel", "CONNECT any.example:443 HTTP/1.1\r\nHost: any.example:443\r\n\r\n", "404"},
	{"another protocol", "GET / HTTP/1.1\r\nHost: any.example\r\nConnection: Upgrade\r\nUpgrade: other\r\n\r\n", "403"},
	{"too many headers", "GET / HTTP/1.1\r\nHost: any.example\r\n" + strings.Repeat("X-A: a\r\n", 101) + "\r\n", "431"},
	{"too long headers", "GET / HTTP/1.1\r\nHost: any.example\r\nX-A: " + strings.Repeat("a", 61<<10) + "\r\n\r\n", "431"},
	{"backslashes", "GET /x/..%5Cledger HTTP/1.1\r\nHost: any.example\r\n\r\n", "307"},
	{"a fragment", "GET /ledger#/../x HTTP/1.1\r\nHost: any.example\r\n\r\n", "400"},
	{"a whole address", "GET http://ledger.example/x HTTP/1.1\r\nHost: any.example\r\n\r\n", "ledger-1 inside.example []"},
	{"a parameter of a segment", "GET /ledger;a HTTP/1.1\r\nHost: any.example\r\n\r\n", "backend-1 any.example []"},
	{"dots", "GET /ledger/%2e%2E/x HTTP/1.1\r\nHost: any.example\r\n\r\n", "backend-1 any.example []"},
	{"another path", "GET /x HTTP/1.1\r\nHost: any.example\r\nX-Envoy-Original-Path: /ledger\r\nX-Rewrite-Url: /ledger\r\n\r\n", "backend-1 any.example []"},
	{"a port of the host", "GET /x HTTP/1.1\r\nHost: ledger.example:1\r\n\r\n", "ledger-1 inside.example []"},
	{"capitals", "GET /x HTTP/1.1\r\nHost: LEDGER.Example\r\n\r\n", "ledger-1 inside.example []"},
	{"no UTF-8", "GET /x HTTP/1.1\r\nHost: any.example\r\nX-To: \xff\r\n\r\n", "backend-1 any.example []"},
}

// answered writes a request to a port and returns the status of the answer, or the service that
// answered with what it got.
func answered(port int, request string) string {
	GinkgoHelper()
	conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port)) //nolint:noctx // a test
	Expect(err).NotTo(HaveOccurred())
	defer func() { _ = conn.Close() }()
	Expect(conn.SetDeadline(time.Now().Add(patience))).To(Succeed())
	_, err = io.WriteString(conn, request)
	Expect(err).NotTo(HaveOccurred())
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return unanswered
	}
	Expect(err).NotTo(HaveOccurred())
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return strconv.Itoa(resp.StatusCode)
	}
	var echo framework.Received
	Expect(json.NewDecoder(resp.Body).Decode(&echo)).To(Succeed())
	return strings.TrimSpace(fmt.Sprintf("%s %s %q", echo.Name, echo.Host, echo.Headers["X-A"]))
}

// overHTTP2 sends a request with some more fields on a connection of its own. It returns what the
// gateway says of the connection, and the status of the answer, or unanswered.
func overHTTP2(port int, name string, more ...hpack.HeaderField) (settings map[http2.SettingID]uint32, status string) {
	GinkgoHelper()
	conn, err := tls.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port), &tls.Config{ServerName: name, InsecureSkipVerify: true, NextProtos: []string{"h2"}}) //nolint:noctx // a test
	Expect(err).NotTo(HaveOccurred())
	defer func() { _ = conn.Close() }()
	Expect(conn.SetDeadline(time.Now().Add(patience))).To(Succeed())
	var request, block bytes.Buffer
	request.WriteString(http2.ClientPreface)
	framer := http2.NewFramer(&request, conn)
	framer.AllowIllegalWrites = true
	framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	Expect(framer.WriteSettings()).To(Succeed())
	encoder := hpack.NewEncoder(&block)
	for _, f := range append([]hpack.HeaderField{{Name: ":method", Value: "GET"}, {Name: ":scheme", Value: "https"}, {Name: ":authority", Value: name}, {Name: ":path", Value: "/"}}, more...) {
		Expect(encoder.WriteField(f)).To(Succeed())
	}
	Expect(framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndStream: true, EndHeaders: true})).To(Succeed())
	_, err = conn.Write(request.Bytes())
	Expect(err).NotTo(HaveOccurred())
	settings = map[http2.SettingID]uint32{}
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			return settings, unanswered
		}
		switch f := frame.(type) {
		case *http2.SettingsFrame:
			_ = f.ForeachSetting(func(s http2.Setting) error { settings[s.ID] = s.Val; return nil }) // the function does not fail
		case *http2.RSTStreamFrame, *http2.GoAwayFrame:
			return settings, unanswered
		case *http2.MetaHeadersFrame:
			return settings, f.PseudoValue("status")
		}
	}
}
