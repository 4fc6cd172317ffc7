package chaos_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// actors is how many clients revoke side by side, and lookers how many check at
// each proxy beside them.
const (
	actors  = 48
	lookers = 2
)

var _ = Describe("after an answer of success to a revocation", func() {
	It("no proxy accepts what was revoked, whatever happens", func() {
		start, total := time.Now(), length()
		b := newBook()
		w := newWorld(b, seed())
		only := regexp.MustCompile(os.Getenv(onlyVariable))
		head := fmt.Sprintf("%s with seed %d: %d clients that revoke, %d that check, three gateways and a sidecar.", total, w.seed, actors, lookers*len(w.proxies))
		By(head)
		w.stock(context.Background())

		ctx, stop := context.WithCancel(context.Background())
		var work sync.WaitGroup
		halt := func() {
			stop()
			work.Wait()
		}
		DeferCleanup(halt)
		for n := range actors {
			work.Go(func() { newActor(w, 1+n).live(ctx) })
		}
		for n := range lookers * len(w.proxies) {
			work.Go(func() { newActor(w, 1+actors+n).look(ctx, w.proxies[n%len(w.proxies)]) })
		}
		began := time.Now()
		rng := rand.New(rand.NewPCG(w.seed, 0))
		next := plan(rng, only)
		// The end of a run is for a look at everything that was revoked.
		for last := start.Add(total - min(total/8, 20*time.Second)); time.Now().Before(last); {
			r := next()
			By(fmt.Sprintf("%8.1f s: %s", time.Since(start).Seconds(), r.name))
			limited, done := context.WithDeadline(ctx, last)
			w.hurt(limited, r, rng)
			done()
			b.mu.Lock()
			t := b.now
			b.mu.Unlock()
			By("  " + b.progress(t))
			b.retire(false)
			Expect(write(b.report(head))).To(Succeed())
		}
		loaded := time.Since(began)
		b.enter("the last look")
		halt()
		w.sweep(min(total/16, 10*time.Second))
		b.retire(true)
		text := b.report(head)
		AddReportEntry("report", text)
		Expect(write(text)).To(Succeed())
		judge(b, loaded, only.String() == "")
	})
})

// sweep shows what was revoked to every proxy once more, the newest first.
func (w *world) sweep(d time.Duration) {
	end := time.Now().Add(d)
	w.book.mu.Lock()
	all := w.book.ended
	w.book.mu.Unlock()
	var work sync.WaitGroup
	for _, p := range w.proxies {
		work.Go(func() {
			for i := len(all) - 1; i >= 0 && time.Now().Before(end); i-- {
				w.book.ask(all[i], p)
			}
		})
	}
	work.Wait()
}

// judge fails the spec for violations, and for a run that says too little.
func judge(b *book, loaded time.Duration, whole bool) {
	if n := b.violations.n; n > 0 {
		Fail(fmt.Sprintf("%d credentials were accepted after their end, and there are %d other problems; the first of them:\n%s", n, b.problems.n, strings.Join(append(b.violations.first, b.problems.first...), "\n")))
	}
	Expect(b.problems.first).To(BeEmpty())
	Expect(b.open).To(BeZero(), "histories that could not be decided")
	rate := int(loaded.Seconds())
	Expect(b.sum(func(t *tally) int { return t.accepted + t.refused })).To(BeNumerically(">=", 100*rate), "decided checks")
	Expect(b.sum(func(t *tally) int { return t.confirmed })).To(BeNumerically(">=", 5*rate), "confirmed revocations")
	for i, name := range proxyNames {
		Expect(b.byProxy[0][i]).To(BeNumerically(">=", 10*rate), "refused at %s", name)
		Expect(b.byProxy[1][i]).To(BeNumerically(">=", 10*rate), "accepted at %s", name)
	}
	if whole {
		for _, w := range ways {
			Expect(b.ways[w.name]).To(BeNumerically(">=", 1), "confirmed: %s", w.name)
		}
	}
}
