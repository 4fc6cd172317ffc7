package mesh_test

import (
	"net/http"
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

var _ = Describe("from plain text to mutual TLS", Ordered, core, func() {
	It("off, PERMISSIVE, STRICT under load: no request of the mesh fails, and plain clients are refused only at the end", func() {
		w := newWorld("")
		first := w.start("backend-1", tags{service: "backend"})
		second := w.start("backend-2", tags{service: "backend"})
		web := w.start("web-1", tags{service: "web"}, "backend")
		w.ready(web, first, second)
		answers(web.to("backend"), 200)
		outside := "http://" + first.inbound()
		answers(outside, 200)
		Expect(web.Stat("cluster.backend.ssl.handshake")).To(BeZero())

		load := framework.StartTraffic(web.to("backend"), http.Header{}, 2)
		fresh := framework.StartConnections(web.to("backend"), http.Header{}, 1, 5)
		plain := framework.StartConnections(outside, http.Header{}, 1, 5)
		load.Served(300)

		// While one instance has not heard of it, it is called in clear text, and the other
		// by TLS already.
		second.Signal(syscall.SIGSTOP)
		since := time.Now()
		w.secure("PERMISSIVE")
		shaken := func(m *member) bool {
			return m.Stat("listener."+strings.ReplaceAll(m.inbound(), ":", "_")+".ssl.handshake") > 0
		}
		measured("callers use mutual TLS with one after", since, func() bool { return shaken(first) })
		load.Served(300)
		Expect(shaken(second)).To(BeFalse())
		second.Signal(syscall.SIGCONT)
		measured("callers use mutual TLS with both after", since, func() bool { return shaken(second) })
		load.Served(300)
		plain.Served(100)
		none(plain)

		open := keepAlive(first.inbound())
		Expect(open.get()).To(Equal(200))
		since = time.Now()
		w.secure("STRICT")
		measured("new plain connections refused after", since, func() bool {
			_, err := get(outside)
			return err != nil
		})
		measured("open plain connection ended after", since, func() bool { return open.get() == 0 || open.reconnected() })
		load.Served(300)
		none(load)
		none(fresh)
		_, err := get(outside)
		Expect(err).To(HaveOccurred())
	})
})
