package mesh_test

import (
	"fmt"
	"io"
	"net"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("a workload that speaks HTTP/1.0", func() {
	It("is served by its proxy, with a Host header and without", func() {
		w := newWorld("STRICT")
		backend := w.start("backend-1", tags{service: "backend"})
		web := w.start("web-1", tags{service: "web"}, "backend")
		w.ready(web, backend)
		answers(web.to("backend"), 200)
		for _, header := range []string{"", "Host: backend\r\n"} {
			conn, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", web.out["backend"]), patience)
			Expect(err).NotTo(HaveOccurred())
			defer func() { _ = conn.Close() }()
			Expect(conn.SetDeadline(time.Now().Add(patience))).To(Succeed())
			_, err = io.WriteString(conn, "GET /x HTTP/1.0\r\n"+header+"\r\n")
			Expect(err).NotTo(HaveOccurred())
			answer, err := io.ReadAll(conn)
			Expect(err).NotTo(HaveOccurred())
			Expect(string(answer)).To(And(HavePrefix("HTTP/1.0 200"), ContainSubstring("backend-1")))
		}
	})
})
