package mesh_test

import (
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

// listen connects, says nothing, and returns the line that the other side says first, or
// nothing if it ends the connection. One that hangs fails the spec.
func listen(address string) (net.Conn, string) {
	conn, lines := dialEcho(address)
	_ = conn.SetDeadline(time.Now().Add(patience))
	text, err := lines.ReadString('\n')
	if err != nil {
		ExpectWithOffset(1, err).NotTo(MatchError(os.ErrDeadlineExceeded), "neither greeted nor ended")
		ExpectWithOffset(1, text).To(BeEmpty())
		_ = conn.Close()
	}
	return conn, strings.TrimSuffix(text, "\n")
}

// over waits until the other side ends a connection, and returns what it says until then.
func over(conn net.Conn) string {
	_ = conn.SetDeadline(time.Now().Add(patience))
	text, err := io.ReadAll(conn)
	ExpectWithOffset(1, errors.Is(err, os.ErrDeadlineExceeded)).To(BeFalse(), "it goes on")
	return string(text)
}

// next is the greeting after a greeting.
func next(text string) string {
	name, n, _ := strings.Cut(text, " ")
	i, err := strconv.Atoi(n)
	ExpectWithOffset(1, err).NotTo(HaveOccurred())
	return name + " " + strconv.Itoa(i+1)
}

var _ = Describe("a TCP service that speaks first", Ordered, core, func() {
	var (
		w          *world
		mail       *logged
		web, other *member
	)

	BeforeAll(func() {
		w = newWorld("STRICT")
		mail = w.startLogged(w.around("mail-1", nil, framework.StartGreeter("mail-1"), tags{service: "mail", protocol: "tcp"}))
		web = w.start("web-1", tags{service: "web"}, "mail")
		other = w.start("other-1", tags{service: "other", "team": "a"}, "mail")
		w.Put("traffic-permissions", policy("TrafficPermission", "only", tags{service: "web"}, tags{service: "mail"}, nil))
		w.Delete(shop, "traffic-permissions", allowAll)
		w.ready(mail.member, web, other)
	})

	// greets waits until a caller is greeted, and returns the greeting.
	greets := func(m *member) (conn net.Conn, text string) {
		GinkgoHelper()
		Eventually(func() string {
			conn, text = listen(m.port2("mail"))
			return text
		}, patience, 10*time.Millisecond).ShouldNot(BeEmpty())
		return conn, text
	}
	silent := func(m *member) {
		GinkgoHelper()
		_, text := listen(m.port2("mail"))
		Expect(text).To(BeEmpty())
	}
	permit := func(from tags) {
		w.Put("traffic-permissions", policy("TrafficPermission", "only", from, tags{service: "mail"}, nil))
		w.Converged()
	}

	It("greets who is permitted, and whoever is not reads nothing and opens nothing", func() {
		_, text := greets(web)
		Expect(text).To(Equal("mail-1 1"))
		before := len(mail.refusals())
		for range 3 {
			silent(other)
		}
		_, text = listen(web.port2("mail"))
		Expect(text).To(Equal("mail-1 2"), "the workload saw no connection of whoever is not permitted")
		l := mail.logs(before + 3)
		Expect(l.Details).To(ContainSubstring("spiffe://shop/other"), "who it was")
		l.Details = ""
		Expect(l).To(Equal(refusedLine{Decision: "refused", Reason: "no_permission", Mesh: shop, Direction: "inbound", Service: "mail"}))
	})

	It("opens nothing for whoever does not prove who it is", func() {
		before := len(mail.refusals())
		conn, err := net.Dial("tcp", mail.inbound())
		Expect(err).NotTo(HaveOccurred())
		_, err = conn.Write([]byte("EHLO there\r\n"))
		Expect(err).NotTo(HaveOccurred())
		Expect(over(conn)).NotTo(ContainSubstring("mail-1"))
		_, text := listen(web.port2("mail"))
		Expect(text).To(Equal("mail-1 3"))
		silent(other)
		mail.logs(before + 1) // it was asked for no permission
	})

	It("a permission that is given while it runs", func() {
		permit(tags{service: "other"})
		greets(other)
		silent(web)
		permit(tags{service: "*"})
		greets(web)
		greets(other)
	})

	It("a permission that is taken away while it runs", func() {
		open, _ := greets(other)
		permit(tags{service: "web"})
		_, text := greets(web)
		silent(other)
		_, again := listen(web.port2("mail"))
		Expect(next(text)).To(Equal(again))
		over(open)
		w.Delete(shop, "traffic-permissions", "only")
		w.Converged()
		silent(web)
		silent(other)
	})

	It("a permission by a tag lets its callers in", func() {
		permit(tags{"team": "a"})
		greets(other)
		permit(tags{service: "other", "team": "*"})
		greets(other)
		silent(web)
	})

	It("sends on all that a permitted caller says at once", func() {
		permit(tags{service: "web"})
		greets(web)
		conn, err := net.Dial("tcp", web.port2("mail"))
		Expect(err).NotTo(HaveOccurred())
		_, err = conn.Write([]byte(strings.Repeat("x", 1<<20)))
		Expect(err).NotTo(HaveOccurred())
		Expect(conn.(*net.TCPConn).CloseWrite()).To(Succeed())
		_ = conn.SetDeadline(time.Now().Add(patience))
		text, err := io.ReadAll(conn)
		Expect(err).NotTo(HaveOccurred())
		Expect(string(text)).To(MatchRegexp(`^mail-1 \d+\n1048576\n$`))
	})
})
