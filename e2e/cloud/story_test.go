package cloud_test

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

// within is how long anything may take to arrive.
const within = time.Minute

// listening are the addresses of this machine at which somebody listens at a port, as the kernel writes them.
func listening(port int) (addresses []string) {
	GinkgoHelper()
	for _, file := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		table, err := os.ReadFile(file)
		Expect(err).NotTo(HaveOccurred())
		for line := range strings.Lines(string(table)) {
			f := strings.Fields(line)
			if at, ok := strings.CutSuffix(f[1], fmt.Sprintf(":%04X", port)); ok && f[3] == "0A" {
				addresses = append(addresses, at)
			}
		}
	}
	return addresses
}

var _ = Describe("a portal's audit log", func() {
	var w *world

	BeforeEach(func() {
		w = newWorld(framework.NewControlPlane("run", append([]string{"--cloud-listen", "0.0.0.0"}, toReceivers...)...).Start())
	})

	It("is at the receiver, signed, in order and once, also after the receiver was away", func() {
		want := w.logins(0, 1)
		Eventually(w.siem.agents, within, "10ms").Should(Equal(want))
		Eventually(w.status, within, "10ms").Should(And(HaveKeyWithValue("webhook_status", "active"), HaveKeyWithValue("last_response_code", 200.0)))

		w.siem.goAway()
		want = append(want, w.logins(1, 2)...)
		Eventually(w.status, within, "10ms").Should(HaveKeyWithValue("last_response_message", "the connection was refused"))
		Expect(w.login("browser-2", "wrong horse")).To(Equal(401))
		w.siem.comeBack()
		want = append(want, "browser-2")
		Eventually(w.siem.agents, within, "10ms").Should(Equal(want))

		test := w.do(202, "POST", w.of("/audit-log-webhook/test"), nil)["event_id"]
		all := func() []event { return slices.Concat(w.siem.arrived()...) }
		Eventually(func() int { return len(all()) }, within, "10ms").Should(Equal(4))
		Expect(outcomes(all())).To(Equal([]string{"SUCCESS", "SUCCESS", "INVALID_PASSWORD", "TEST"}))
		Expect(all()[3].ID).To(Equal(test))

		now := time.Now().UTC()
		w.do(202, "PUT", w.of("/audit-log-replay-job"), map[string]any{"start_at": now.Add(-time.Hour).Format(time.RFC3339), "end_at": now.Add(time.Second).Format(time.RFC3339)})
		Eventually(func() any { return w.do(200, "GET", w.of("/audit-log-replay-job"), nil)["status"] }, within, "10ms").Should(Equal("completed"))
		Expect(all()).To(HaveLen(8))
		Expect(all()[4:]).To(Equal(all()[:4]), "the same events, with the same ids")
		w.siem.expectNothingBad()
	})

	It("is signed by the new key as soon as its key is replaced", func() {
		want := w.logins(0, 1)
		Eventually(w.siem.agents, within, "10ms").Should(Equal(want))
		for n, body := range []string{`{}`, `{"compromised":true}`} {
			old := w.signs()
			r, err := framework.Do(w.http, "POST", fmt.Sprintf("http://127.0.0.1:%d/keys/audit-log/rotate", w.c.Mesh), http.Header{"Content-Type": {"application/json"}}, body)
			Expect(err).NotTo(HaveOccurred())
			Expect(r.Status).To(Equal(200), r.Body)
			Expect(w.signs()).NotTo(Equal(old))
			w.siem.trust(w.signs()) // and nothing else
			want = append(want, w.logins(n+1, n+2)...)
			Eventually(w.siem.agents, within, "10ms").Should(Equal(want))
		}
		w.siem.expectNothingBad()
	})

	It("does not go to a receiver whose certificate nobody vouches for, unless its destination says so", func() {
		w.do(200, "PATCH", w.destination, map[string]any{"skip_ssl_verification": false})
		want := w.logins(0, 1)
		Eventually(w.status, within, "10ms").Should(And(HaveKeyWithValue("webhook_status", "inactive"), HaveKeyWithValue("last_response_message", "the certificate is not trusted")))
		Expect(w.siem.arrived()).To(BeEmpty())
		w.do(200, "PATCH", w.destination, map[string]any{"skip_ssl_verification": true})
		Eventually(w.siem.agents, within, "10ms").Should(Equal(want))
		w.siem.expectNothingBad()
	})

	It("is administrated by holders of a token, and one that is revoked is refused at once", func() {
		token := command(w.c, "token", "create", "--name", "short", "--role", "viewer")
		Expect(w.ask(token, "GET", "/v2/portals", nil).Status).To(Equal(200))
		Expect(w.ask(token, "POST", "/v2/portals", map[string]any{"name": "more"}).Status).To(Equal(403))
		command(w.c, "token", "revoke", "short")
		Expect(w.ask(token, "GET", "/v2/portals", nil).Status).To(Equal(401))
		Expect(w.ask("", "GET", "/v2/portals", nil).Status).To(Equal(401))

		By("HTTPS with the control plane's authority, and HTTP on the loopback only")
		secure := fmt.Sprintf("https://localhost:%d/v2/portals", w.c.CloudTLS)
		header := http.Header{"Authorization": {"Bearer " + w.token}}
		r, err := framework.Do(w.http, "GET", secure, header, "")
		Expect(err).NotTo(HaveOccurred())
		Expect(r.Status).To(Equal(200), r.Body)
		_, err = framework.Do(&http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: within}, "GET", secure, header, "")
		Expect(errors.As(err, new(x509.UnknownAuthorityError))).To(BeTrue(), "%v", err)

		Expect(listening(w.c.Cloud)).To(Equal([]string{"0100007F"}))
		Expect(listening(w.c.CloudTLS)).To(ConsistOf(MatchRegexp("^0+$")), "everywhere, as cloud.listen says")
	})
})
