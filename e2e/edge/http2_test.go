package edge_test

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"net"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// refused is what an HTTP/2 exchange ends with that gets no answer: a reset
// stream or a closed connection.
const refused = "refused"

// field is one header field of HTTP/2 as it is written, valid or not.
type field = hpack.HeaderField

// fields makes a header block of names and values.
func fields(pairs ...string) []field {
	out := make([]field, 0, len(pairs)/2)
	for i := 0; i+1 < len(pairs); i += 2 {
		out = append(out, field{Name: pairs[i], Value: pairs[i+1]})
	}
	return out
}

// dialHTTP2 opens a connection to one of the listeners.
func dialHTTP2(secure bool) net.Conn {
	if !secure {
		return listeners["plain TCP"]()
	}
	conn, err := tls.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", c.HTTPS), &tls.Config{RootCAs: roots(), ServerName: "localhost", MinVersion: tls.VersionTLS12, NextProtos: []string{"h2"}})
	Expect(err).NotTo(HaveOccurred())
	return conn
}

// frames sends one stream with these fields and body, and returns the status
// of the answer, or refused.
func frames(secure bool, header []field, body string) string {
	conn := dialHTTP2(secure)
	defer func() { _ = conn.Close() }()
	Expect(conn.SetDeadline(time.Now().Add(rawDeadline))).To(Succeed())
	// In one write: a gateway that has read the fields and not yet the body may
	// answer what only the body makes wrong.
	var request bytes.Buffer
	request.WriteString(http2.ClientPreface)
	framer := http2.NewFramer(&request, conn)
	framer.AllowIllegalWrites = true
	Expect(framer.WriteSettings()).To(Succeed())
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for _, h := range header {
		Expect(encoder.WriteField(h)).To(Succeed())
	}
	Expect(framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndHeaders: true, EndStream: body == ""})).To(Succeed())
	if body != "" {
		Expect(framer.WriteData(1, true, []byte(body))).To(Succeed())
	}
	_, err := request.WriteTo(conn)
	Expect(err).NotTo(HaveOccurred())
	framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			timeout, ok := err.(net.Error) //nolint:errorlint // what the connection itself returns
			Expect(ok && timeout.Timeout()).To(BeFalse(), "the gateway neither answered nor closed: %v", header)
			return refused
		}
		switch frame := frame.(type) {
		case *http2.MetaHeadersFrame:
			return frame.PseudoValue("status")
		case *http2.RSTStreamFrame, *http2.GoAwayFrame:
			return refused
		}
	}
}

var _ = Describe("raw HTTP/2", func() {
	const host = "gateway.example"
	for _, secure := range []bool{false, true} {
		name := map[bool]string{false: "plain TCP", true: "TLS"}[secure]

		It("gets nothing for fields that are not allowed, over "+name, func() {
			table := []struct {
				what   string
				header []field
				body   string
				want   []string
			}{
				{"no path", fields(":method", "GET", ":scheme", "http", ":authority", host), "", []string{refused, "400"}},
				{"an empty path", fields(":method", "GET", ":scheme", "http", ":authority", host, ":path", ""), "", []string{refused, "400"}},
				{"no slash", fields(":method", "GET", ":scheme", "http", ":authority", host, ":path", "api/x"), "", []string{refused, "400"}},
				{"a star", fields(":method", "OPTIONS", ":scheme", "http", ":authority", host, ":path", "*"), "", []string{refused, "400", "404"}},
				{"a fragment", fields(":method", "GET", ":scheme", "http", ":authority", host, ":path", "/open#/../api/x"), "", []string{refused, "400"}},
				{"two paths", fields(":method", "GET", ":scheme", "http", ":authority", host, ":path", "/open/x", ":path", "/api/x"), "", []string{refused, "400"}},
				{"two methods", fields(":method", "GET", ":method", "POST", ":scheme", "http", ":authority", host, ":path", "/api/x"), "", []string{refused, "400"}},
				{"no method", fields(":scheme", "http", ":authority", host, ":path", "/api/x"), "", []string{refused, "400"}},
				{"a pseudo field after others", fields(":method", "GET", ":scheme", "http", ":authority", host, "x-a", "b", ":path", "/api/x"), "", []string{refused, "400"}},
				{"an unknown pseudo field", fields(":method", "GET", ":scheme", "http", ":authority", host, ":path", "/api/x", ":x", "y"), "", []string{refused, "400"}},
				{"CONNECT", fields(":method", "CONNECT", ":authority", host+":80"), "", []string{refused, "400", "404"}},
				{"CONNECT with a body", fields(":method", "CONNECT", ":authority", host+":80"), smuggled, []string{refused, "400", "404"}},
				{"an extended CONNECT", fields(":method", "CONNECT", ":protocol", "websocket", ":scheme", "http", ":authority", host, ":path", "/api/x"), "", []string{refused, "400", "401", "403"}},
				{"an upper-case name", fields(":method", "GET", ":scheme", "http", ":authority", host, ":path", "/api/x", "X-A", "b"), "", []string{refused, "400"}},
				{"CR LF in a value", fields(":method", "GET", ":scheme", "http", ":authority", host, ":path", "/open/x", "x-a", "b\r\nx-consumer-id: spoofed"), "", []string{refused, "400"}},
				{"NUL in a value", fields(":method", "GET", ":scheme", "http", ":authority", host, ":path", "/open/x", "x-a", "b\x00"), "", []string{refused, "400"}},
				{"CR LF in the path", fields(":method", "GET", ":scheme", "http", ":authority", host, ":path", "/open/x HTTP/1.1\r\nx-a: b"), "", []string{refused, "400"}},
				{"CR LF in the method", fields(":method", "GET /api/x HTTP/1.1\r\nx-a: b", ":scheme", "http", ":authority", host, ":path", "/open/x"), "", []string{refused, "400"}},
				{"a colon in a name", fields(":method", "GET", ":scheme", "http", ":authority", host, ":path", "/open/x", "x-a: b", "c"), "", []string{refused, "400"}},
				{"Transfer-Encoding", fields(":method", "POST", ":scheme", "http", ":authority", host, ":path", "/open/x", "transfer-encoding", "chunked"), "0\r\n\r\n" + smuggled, []string{refused, "400"}},
				{"Connection", fields(":method", "GET", ":scheme", "http", ":authority", host, ":path", "/open/x", "connection", "x-forwarded-for"), "", []string{refused, "400"}},
				{"a length that is too short", fields(":method", "POST", ":scheme", "http", ":authority", host, ":path", "/open/x", "content-length", "0"), smuggled, []string{refused, "400"}},
				{"a length that is too long", fields(":method", "POST", ":scheme", "http", ":authority", host, ":path", "/open/x", "content-length", "9999"), smuggled, []string{refused, "400"}},
				{"two lengths", fields(":method", "POST", ":scheme", "http", ":authority", host, ":path", "/open/x", "content-length", "1", "content-length", "2"), "hi", []string{refused, "400"}},
			}
			// All at once: Envoy closes a connection a second after an error.
			Expect(guarded.during(func() {
				var work sync.WaitGroup
				for _, t := range table {
					work.Go(func() {
						defer GinkgoRecover()
						Expect(frames(secure, t.header, t.body)).To(BeElementOf(t.want), t.what)
					})
				}
				work.Wait()
			})).To(BeEmpty())
		})

		It("is decided like HTTP/1.1, over "+name, func() {
			token := f.MustMint(c.HTTPS)
			for _, scheme := range []string{"http", "https", "HTTPS", "ftp"} {
				By(scheme)
				base := []string{":method", "GET", ":scheme", scheme, ":authority", host, ":path"}
				at := func(path string, more ...string) string {
					return frames(secure, fields(append(append(base, path), more...)...), "")
				}
				// A scheme that is not that of the connection may be refused, but
				// decides nothing else.
				either := func(want string) OmegaMatcher {
					if scheme == map[bool]string{false: "http", true: "https"}[secure] {
						return Equal(want)
					}
					return BeElementOf(want, "400", "403", refused)
				}
				Expect(at("/api/x", "authorization", "Bearer "+token)).To(either("200"), scheme)
				Expect(guarded.during(func() {
					Expect(at("/api/x")).To(either("401"), scheme)
					Expect(at("/api/x", "authorization", "Bearer "+token, "authorization", "Bearer bad")).To(either("401"), scheme)
					Expect(at("/api/x", "authorization", "Bearer bad", "authorization", "Bearer "+token)).To(either("401"), scheme)
					Expect(at("/public/../api/x")).To(either("401"), scheme)
					Expect(at(`/public\..\api/x`)).To(either("401"), scheme)
					Expect(at("/api/x", "host", "other.example")).To(either("401"), scheme)
				})).To(BeEmpty())
			}
		})
	}

	It("cannot choose the scheme by which tokens are issued", func() {
		for _, scheme := range []string{"https", "HTTPS"} {
			Expect(frames(false, fields(":method", "POST", ":scheme", scheme, ":authority", "localhost", ":path", "/api/oauth2/token",
				"content-type", formType, "x-forwarded-proto", "https"), form())).To(BeElementOf("400", "403", refused))
		}
		Expect(frames(true, fields(":method", "POST", ":scheme", "https", ":authority", "localhost", ":path", "/api/oauth2/token", "content-type", formType), form())).To(Equal("200"))
		Expect(frames(true, fields(":method", "POST", ":scheme", "http", ":authority", "localhost", ":path", "/api/oauth2/token", "content-type", formType), form())).To(BeElementOf("200", "400", "403"))
	})
})
