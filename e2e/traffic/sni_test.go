package traffic_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// connect opens a TLS connection to the HTTPS port without a look at the
// certificate, which is what tests look at.
func connect(server string, edit func(*tls.Config)) (*tls.Conn, error) {
	config := &tls.Config{ServerName: server, InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}
	if edit != nil {
		edit(config)
	}
	return tls.DialWithDialer(&net.Dialer{Timeout: patience}, "tcp", fmt.Sprintf("127.0.0.1:%d", c.HTTPS), config)
}

// dial is a connection that stays open until the end of the spec.
func dial(server string) *tls.Conn {
	conn, err := connect(server, nil)
	ExpectWithOffset(1, err).NotTo(HaveOccurred())
	DeferCleanup(func() { _ = conn.Close() }) // the gateway may have been first
	return conn
}

// shownTo is the subject of the certificate that a client sees, or why it sees
// none.
func shownTo(server string, edit func(*tls.Config)) string {
	conn, err := connect(server, edit)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = conn.Close() }() // only its handshake is wanted
	return conn.ConnectionState().PeerCertificates[0].Subject.CommonName
}

// again sends a request on an open connection and reports whether it stays open.
func again(conn net.Conn) (open bool) {
	Expect(conn.SetDeadline(time.Now().Add(patience))).To(Succeed())
	_, err := fmt.Fprint(conn, "GET /nowhere HTTP/1.1\r\nHost: x\r\n\r\n")
	ExpectWithOffset(1, err).NotTo(HaveOccurred())
	r, err := http.ReadResponse(bufio.NewReader(conn), nil)
	ExpectWithOffset(1, err).NotTo(HaveOccurred())
	_, err = io.Copy(io.Discard, r.Body)
	ExpectWithOffset(1, err).NotTo(HaveOccurred())
	return !r.Close
}

var _ = Describe("certificates by server name", Ordered, func() {
	var ca *authority
	var own, first string
	unnamed := func() string { return shownTo("localhost", nil) }

	BeforeAll(func() {
		ca = newAuthority("ca")
		own = unnamed()
	})

	It("are shown to those who ask for them, and disturb nobody else", func() {
		standing := dial("localhost")
		Expect(again(standing)).To(BeTrue())

		first = id(api.Must(201, http.MethodPost, "/certificates", ca.issue(false, "shop", "shop.test").document()))
		api.Must(201, http.MethodPost, "/snis", document{"name": "Shop.test", "certificate": document{"id": first}})
		api.Converged()
		Eventually(func() string { return shownTo("shop.test", nil) }, patience).Should(Equal("shop"))
		Expect(shownTo("shop.test", func(c *tls.Config) { c.NextProtos = []string{"h2"} })).To(Equal("shop"))
		Expect(unnamed()).To(Equal(own))
		Expect(shownTo("other.shop.test", nil)).To(Equal(own))
		Expect(again(standing)).To(BeTrue(), "a connection of another chain is drained")

		By("a second certificate, with a wildcard")
		shop := dial("shop.test")
		Expect(again(shop)).To(BeTrue())
		wild := id(api.Must(201, http.MethodPost, "/certificates", ca.issue(true, "wild", "*.wild.test").document()))
		api.Must(201, http.MethodPost, "/certificates/"+wild+"/snis", document{"name": "*.wild.test"})
		api.Converged()
		Eventually(func() string { return shownTo("a.wild.test", nil) }, patience).Should(Equal("wild"))
		Expect(shownTo("shop.test", nil)).To(Equal("shop"))
		Expect(again(standing)).To(BeTrue())
		Expect(again(shop)).To(BeTrue())

		By("one that goes, with its names")
		api.Must(204, http.MethodDelete, "/certificates/"+wild, nil)
		api.Converged()
		Eventually(func() string { return shownTo("a.wild.test", nil) }, patience).Should(Equal(own))
		Expect(again(standing)).To(BeTrue())
		Expect(again(shop)).To(BeTrue())
	})

	It("are replaced under their id without a closed connection", func() {
		open := dial("shop.test")
		Expect(again(open)).To(BeTrue())
		// Three times: a second and a third replacement have been missed by others.
		for _, subject := range []string{"shop-2", "shop-3", "shop-4"} {
			api.Must(200, http.MethodPatch, "/certificates/"+first, ca.issue(false, subject, "shop.test").document())
			api.Converged()
			Eventually(func() string { return shownTo("shop.test", nil) }, patience).Should(Equal(subject))
			Expect(again(open)).To(BeTrue())
		}
	})

	It("have an alternative for clients that know only one type of key", func() {
		alternative := ca.issue(true, "shop-rsa", "shop.test")
		api.Must(200, http.MethodPatch, "/certificates/"+first, document{"cert_alt": alternative.cert, "key_alt": alternative.key})
		api.Converged()
		// A client of crypto/tls always says that it knows ECDSA.
		rsaOnly := func() string {
			out, _ := exec.Command("openssl", "s_client", "-connect", fmt.Sprintf("127.0.0.1:%d", c.HTTPS),
				"-servername", "shop.test", "-tls1_2", "-cipher", "ECDHE-RSA-AES128-GCM-SHA256").CombinedOutput() // a refusal is an exit code, too
			return string(out)
		}
		Eventually(rsaOnly, patience).Should(MatchRegexp(`subject=CN ?= ?shop-rsa`))
		Expect(shownTo("shop.test", nil)).To(Equal("shop-4"))
	})

	It("show their keys to administrators alone", func() {
		got := api.Must(200, http.MethodGet, "/certificates/"+first, nil).JSON()
		Expect(got["key"]).To(ContainSubstring("PRIVATE KEY"))
	})

	It("are refused if they are of no use", func() {
		one, two := ca.issue(false, "one", "one.test"), ca.issue(false, "two", "two.test")
		for text, doc := range map[string]document{
			"certificate does not match key":                {"cert": one.cert, "key": two.key},
			"invalid certificate":                           {"cert": one.key, "key": one.key},
			"invalid key":                                   {"cert": one.cert, "key": "x"},
			"all or none of these fields must be set":       {"cert": one.cert, "key": one.key, "cert_alt": two.cert},
			"need to have different type":                   {"cert": one.cert, "key": one.key, "cert_alt": two.cert, "key_alt": two.key},
			"schema violation (key: required field missing": {"cert": one.cert},
		} {
			r := api.Must(400, http.MethodPost, "/certificates", doc)
			Expect(r.Body).To(ContainSubstring(text))
			Expect(r.Body).NotTo(ContainSubstring("-----BEGIN"))
		}
		api.Must(400, http.MethodPost, "/snis", document{"name": "shop.*", "certificate": document{"id": first}})
		api.Must(409, http.MethodPost, "/snis", document{"name": "SHOP.test", "certificate": document{"id": first}})
		api.Must(400, http.MethodPost, "/ca_certificates", document{"cert": one.cert})
	})
})
