package mesh_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

// administrates asks an address who the caller is for the control plane, as its own machine would
// ask. It is false without an answer.
func administrates(address string) bool {
	conn, err := net.DialTimeout("tcp", address, time.Second)
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(2 * time.Second))
	if _, err = io.WriteString(conn, "GET /nodes HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"); err != nil {
		return false
	}
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return false
	}
	defer func() { _ = answer.Body.Close() }()
	return answer.StatusCode == http.StatusOK
}

var _ = Describe("a sidecar beside the control plane", func() {
	// lending describes a workload, and an inbound for each port of the control plane.
	lending := func(w *world) (good *member, lent []string) {
		good = w.describe("web-1", tags{service: "web"})
		networking := good.doc["networking"].(map[string]any)
		ports := framework.FreePorts(2)
		for i, own := range []int{w.cp.Mesh, w.cp.Admin} {
			networking["inbound"] = append(networking["inbound"].([]any), map[string]any{
				"port": ports[i], "servicePort": own, "tags": tags{service: fmt.Sprintf("plane-%d", i), protocol: "tcp"},
			})
			lent = append(lent, fmt.Sprintf("127.0.0.1:%d", ports[i]))
		}
		w.join(good).WaitReady()
		return good, lent
	}

	It("lends nobody the loopback on which that trusts everybody, and serves its workload", func() {
		w := newWorld("")
		Expect(administrates(fmt.Sprintf("127.0.0.1:%d", w.cp.Mesh))).To(BeTrue(), "an operator on this machine")
		good, lent := lending(w)
		answers("http://"+good.inbound(), 200)
		Eventually(func() string {
			var all []string
			for _, s := range w.overview("web-1").Insight.Subscriptions {
				for _, n := range s.Rejected {
					all = append(all, n.Error)
				}
			}
			return strings.Join(all, "\n")
		}, patience, 20*time.Millisecond).Should(And(
			ContainSubstring("it leads to 127.0.0.1:%d, where the control plane on this machine takes whoever is on it for an administrator", w.cp.Mesh),
			ContainSubstring("it leads to 127.0.0.1:%d,", w.cp.Admin)))
		for _, address := range lent {
			Consistently(func() bool { return administrates(address) }, "500ms", "100ms").Should(BeFalse(), address)
		}
	})
})
