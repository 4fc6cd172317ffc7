package edge_test

import (
	"strconv"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/net/http2"
)

// barrier returns when the gateway has dealt with every frame that was sent before,
// with the frames of a stream that came meanwhile: the answer's status, and whether
// the stream was reset.
func (s *session) barrier(id uint32) (status string, reset bool) {
	GinkgoHelper()
	s.pings++
	want := [8]byte{s.pings}
	Expect(s.framer.WritePing(false, want)).To(Succeed())
	for {
		frame, err := s.framer.ReadFrame()
		Expect(err).NotTo(HaveOccurred(), "the connection ended")
		switch frame := frame.(type) {
		case *http2.PingFrame:
			if frame.IsAck() && frame.Data == want {
				return status, reset
			}
		case *http2.MetaHeadersFrame:
			if frame.StreamID == id {
				status = frame.PseudoValue("status")
			}
		case *http2.RSTStreamFrame:
			reset = reset || frame.StreamID == id
		}
	}
}

// A stream that is answered while its client still sends is reset, which some
// clients take for an error: they never show the answer.
var _ = Describe("an HTTP/2 client whose request is refused by its headers", func() {
	for what, tt := range map[string]struct{ path, status string }{
		"without a token": {"/api/x", "401"},
		"without a route": {"/nowhere", "404"},
	} {
		It("gets its answer behind its small body, and no reset, "+what, func() {
			s := newSession(true)
			const body = "a=b"
			id := s.open(fields(":method", "POST", ":scheme", "https", ":authority", "gateway.example", ":path", tt.path, "content-length", strconv.Itoa(len(body))), false)
			early, reset := s.barrier(id)
			Expect(early).To(BeEmpty(), "it was answered before its body came")
			Expect(reset).To(BeFalse())
			Expect(s.framer.WriteData(id, true, []byte(body))).To(Succeed())
			Expect(s.status(id)).To(Equal(tt.status))
			_, reset = s.barrier(id)
			Expect(reset).To(BeFalse())
		})
		It("gets its answer at once if its body has no length, or a large one, "+what, func() {
			s := newSession(true)
			id := s.open(fields(":method", "POST", ":scheme", "https", ":authority", "gateway.example", ":path", tt.path), false)
			Expect(s.status(id)).To(Equal(tt.status))
			id = s.open(fields(":method", "POST", ":scheme", "https", ":authority", "gateway.example", ":path", tt.path, "content-length", "1048577"), false)
			Expect(s.status(id)).To(Equal(tt.status))
		})
	}
})
