package chaos_test

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"net"
	"regexp"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

// A suite whose instruments see nothing is green. These specs hold them against
// histories and networks that are known.

var _ = Describe("the promise", func() {
	at := func(v verb, call, ret int64) event { return event{verb: v, status: 200, call: call, ret: ret} }
	accepted := func(call, ret int64) event {
		return event{verb: check, status: 200, accepted: true, call: call, ret: ret}
	}
	refused := func(call, ret int64) event { return event{verb: check, status: 401, call: call, ret: ret} }
	elsewhere := func(e event) event { e.proxy = 2; return e }
	silent := func(e event) event { e.status = 0; return e }

	DescribeTable("of a history", func(violated []int, events ...event) {
		c := &credential{events: events}
		got, open := c.broken()
		Expect(open).To(BeEmpty())
		Expect(got).To(Equal(violated))
	},
		Entry("accepted before the end", nil, at(create, 0, 1), accepted(2, 3), at(revoke, 4, 5), refused(6, 7)),
		Entry("accepted after the end", []int{0}, at(create, 0, 1), accepted(2, 3), at(revoke, 4, 5), refused(6, 7), accepted(8, 9)),
		Entry("at one proxy only", []int{2}, at(create, 0, 1), at(revoke, 4, 5), refused(6, 7), elsewhere(accepted(6, 7))),
		Entry("a check that began before the answer", nil, at(create, 0, 1), at(revoke, 4, 8), accepted(7, 12)),
		Entry("accepted after it was refused, while the call lasts", nil, at(create, 0, 1), at(revoke, 2, 9), refused(3, 4), accepted(5, 6)),
		Entry("a revocation that is not confirmed", nil, at(create, 0, 1), at(revoke, 2, never), refused(3, 4), accepted(5, 6)),
		Entry("and is confirmed the second time", []int{0}, at(create, 0, 1), at(revoke, 2, never), at(revoke, 3, 4), accepted(5, 6)),
		Entry("created again", nil, at(create, 0, 1), at(revoke, 2, 3), at(create, 4, 5), accepted(6, 7)),
		Entry("created again and ended again", []int{0}, at(create, 0, 1), at(revoke, 2, 3), at(create, 4, 5), accepted(6, 7), at(revoke, 8, 9), accepted(10, 11)),
		Entry("created again, perhaps", nil, at(create, 0, 1), at(revoke, 2, 3), at(create, 4, never), at(revoke, 6, 7), accepted(8, 9)),
		Entry("accepted before it was created", []int{0}, accepted(0, 1), at(create, 2, 3)),
		Entry("without an answer", nil, at(create, 0, 1), at(revoke, 2, 3), silent(accepted(4, 5))),
	)

	It("is judged at once when a check breaks it", func() {
		b := newBook()
		status := 200
		c := &credential{way: "test", name: "a token", show: func(*proxy) (int, bool) { return status, status == 200 }}
		p := &proxy{}
		c.note(event{verb: create, status: 201, ret: b.time()})
		Expect(b.ask(c, p).accepted).To(BeTrue())
		b.revocation("test", []*credential{c}, event{verb: revoke, status: 204, call: b.time(), ret: b.time()}, true)
		Expect(b.violations.n).To(BeZero())
		Expect(b.ask(c, p).accepted).To(BeTrue())
		Expect(b.ask(c, p).accepted).To(BeTrue(), "reported once")
		Expect(b.violations.n).To(Equal(1))
		Expect(b.violations.first[0]).To(And(ContainSubstring("a token"), ContainSubstring("revoked, 204"), ContainSubstring("ACCEPTED at gateway-a")))
	})
})

var _ = Describe("the book", func() {
	It("measures how long one good token is refused, and when all is well", func() {
		b := newBook()
		status := 200
		c := &credential{way: goodWay, name: "good", show: func(*proxy) (int, bool) { return status, status == 200 }}
		ask := func(n int) {
			for range n {
				for i := range proxyNames {
					b.ask(c, &proxy{index: i})
				}
			}
		}
		t := b.enter("a fault")
		ask(1)
		Expect(t.longest).To(BeZero())
		status = 503
		ask(2)
		b.healed()
		_, err := b.recovered()
		Expect(err).To(HaveOccurred())
		status = 200
		ask(settled)
		Expect(t.longest).To(BeNumerically(">", 0))
		Expect(t.outage).To(Equal(2 * len(proxyNames)))
		_, err = b.recovered()
		Expect(err).To(MatchError(ContainSubstring("no revocation")))
		b.revocation("test", nil, event{verb: revoke, status: 204, call: b.time(), ret: b.time()}, true)
		_, err = b.recovered()
		Expect(err).NotTo(HaveOccurred())
		status = 503
		ask(1)
		_, err = b.recovered()
		Expect(err).To(MatchError(ContainSubstring("does not accept")))
		Expect(b.problems.n).To(BeZero())
		status = 401
		ask(1)
		Expect(b.problems.n).To(Equal(len(proxyNames)), "a good token is never called no good")
	})
})

var _ = Describe("a wire", func() {
	var w *wire
	BeforeEach(func() { w = newWire("test", framework.StartEcho("echo")) })

	type line struct {
		net.Conn
		r *bufio.Reader
	}
	dial := func() *line {
		GinkgoHelper()
		conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", w.port()))
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { _ = conn.Close() })
		return &line{conn, bufio.NewReader(conn)}
	}
	read := func(l *line, d time.Duration) (string, error) {
		_ = l.SetReadDeadline(time.Now().Add(d))
		return l.r.ReadString('\n')
	}
	say := func(l *line, text string) {
		GinkgoHelper()
		_, err := fmt.Fprintln(l, text)
		Expect(err).NotTo(HaveOccurred())
	}
	works := func(l *line) {
		GinkgoHelper()
		say(l, "hello")
		Expect(read(l, 5*time.Second)).To(Equal("echo hello\n"))
	}
	// The time in which nothing must come, where there is no event to wait for.
	const silence = 100 * time.Millisecond

	for _, m := range []mode{freeze, freezeUp, freezeDown} {
		It(fmt.Sprintf("holds bytes in mode %d and delivers them all later", m), func() {
			l := dial()
			works(l)
			w.set(m)
			say(l, "held")
			_, err := read(l, silence)
			Expect(err).To(MatchError(ContainSubstring("i/o timeout")))
			w.set(pass)
			Expect(read(l, 5*time.Second)).To(Equal("echo held\n"))
			works(l)
		})
	}

	It("loses what is sent into a black hole, for good on that connection", func() {
		l := dial()
		works(l)
		w.set(blackhole)
		say(l, "lost")
		during := dial()
		say(during, "lost as well")
		Eventually(func() int {
			w.mu.Lock()
			defer w.mu.Unlock()
			return len(w.pairs)
		}, framework.ReadyTimeout, time.Millisecond).Should(Equal(2))
		w.set(pass)
		for _, silent := range []*line{l, during} {
			_, err := read(silent, silence)
			Expect(err).To(MatchError(ContainSubstring("i/o timeout")), "no reset")
		}
		works(dial())
	})

	It("resets what is open and what comes while it refuses", func() {
		l := dial()
		works(l)
		w.set(refuse)
		_, err := read(l, 5*time.Second)
		Expect(err).To(MatchError(ContainSubstring("reset")))
		if conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", w.port())); err == nil { // it may be reset as early as this
			_, err = read(&line{conn, bufio.NewReader(conn)}, 5*time.Second)
			Expect(err).To(HaveOccurred())
			_ = conn.Close()
		}
		w.set(pass)
		works(dial())
		l = dial()
		works(l)
		w.cut()
		_, err = read(l, 5*time.Second)
		Expect(err).To(HaveOccurred())
		works(dial())
	})

	It("leads elsewhere when it is told to", func() {
		l := dial()
		works(l)
		w.lead(framework.StartEcho("other"))
		_, err := read(l, 5*time.Second)
		Expect(err).To(HaveOccurred())
		l = dial()
		say(l, "hello")
		Expect(read(l, 5*time.Second)).To(Equal("other hello\n"))
	})

	It("delivers late, and ends of connections as what they are", func() {
		w.set(slow)
		l := dial()
		since := time.Now()
		works(l)
		Expect(time.Since(since)).To(BeNumerically(">=", 2*lateness))
		w.set(pass)
		Expect(l.Conn.(*net.TCPConn).CloseWrite()).To(Succeed())
		_, err := read(l, 5*time.Second)
		Expect(err).To(MatchError("EOF"))
	})
})

var _ = Describe("the order of faults", func() {
	It("follows from the seed, tries everything and begins with the cuts", func() {
		names := func(seed uint64, n int) (all []string) {
			next := plan(rand.New(rand.NewPCG(seed, 0)), regexp.MustCompile(""))
			for range n {
				all = append(all, next().name)
			}
			return all
		}
		Expect(names(1, 500)).To(Equal(names(1, 500)))
		Expect(names(1, 50)).NotTo(Equal(names(2, 50)))
		Expect(names(3, 1)).To(Equal([]string{"short cuts of a proxy's link"}))
		seen := map[string]bool{}
		for _, name := range names(1, 3000) {
			seen[name] = true
		}
		for _, f := range faults() {
			Expect(seen).To(HaveKey(f.name))
		}
		AddReportEntry("faults, pairs and stories", len(seen))
	})
})
