package edge_test

import (
	"bytes"
	"io"
	"net"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// session is an HTTP/2 connection of which every frame is the test's own.
type session struct {
	net.Conn
	framer  *http2.Framer
	encoder *hpack.Encoder
	block   bytes.Buffer
	next    uint32
	pings   byte
}

func newSession(secure bool) *session {
	conn := dialHTTP2(secure)
	DeferCleanup(func() { _ = conn.Close() }) // the gateway may have done so
	Expect(conn.SetDeadline(time.Now().Add(rawDeadline))).To(Succeed())
	_, err := io.WriteString(conn, http2.ClientPreface)
	Expect(err).NotTo(HaveOccurred())
	s := &session{Conn: conn, framer: http2.NewFramer(conn, conn), next: 1}
	s.encoder = hpack.NewEncoder(&s.block)
	s.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	Expect(s.framer.WriteSettings()).To(Succeed())
	return s
}

// open starts a stream; end says that it has no body.
func (s *session) open(header []field, end bool) (id uint32) {
	s.block.Reset()
	for _, h := range header {
		Expect(s.encoder.WriteField(h)).To(Succeed())
	}
	id = s.next
	s.next += 2
	Expect(s.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: s.block.Bytes(), EndHeaders: true, EndStream: end})).To(Succeed())
	return id
}

// status reads until a stream is answered, and returns its status or refused.
func (s *session) status(id uint32) string {
	for {
		frame, err := s.framer.ReadFrame()
		ExpectWithOffset(1, err).NotTo(HaveOccurred(), "the connection ended")
		if _, away := frame.(*http2.GoAwayFrame); away {
			return refused
		}
		if frame.Header().StreamID != id {
			continue
		}
		switch frame := frame.(type) {
		case *http2.MetaHeadersFrame:
			return frame.PseudoValue("status")
		case *http2.RSTStreamFrame:
			return refused
		}
	}
}
