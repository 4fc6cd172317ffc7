package redises_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"

	"github.com/meshgate/meshgate/e2e/framework"
)

// patience bounds what the parts take to find each other again.
const patience = time.Minute

// world is a control plane with two gateways, which outlive it.
type world struct {
	c        *framework.ControlPlane
	gateways []*framework.Gateway
	f        *framework.Fixture
	// reads is how many values were read from Redis so far, and get reads one; nil
	// where it cannot be asked.
	reads func() int
	get   func(key string) string
	// good is a token that stays good, gone are those that were revoked.
	good string
	gone []string
}

// newWorld starts one over the Redis of two URLs, that of the control plane and
// that of the gateways. URLs hold passwords, which flags would show to everybody.
func newWorld(url, nodeURL string, reads func() int, get func(key string) string) *world {
	text := fmt.Sprintf("redis:\n  url: %q\n  nodeURL: %q\n", url, nodeURL)
	return newWorldOf(text, reads, get)
}

// newWorldOf starts one with a configuration file.
func newWorldOf(text string, reads func() int, get func(key string) string) *world {
	file := filepath.Join(GinkgoT().TempDir(), "meshgate.yaml")
	Expect(os.WriteFile(file, []byte(text), 0o600)).To(Succeed())
	w := &world{c: framework.NewControlPlane("run", "--config", file).Start(), reads: reads, get: get}
	for _, name := range []string{"g1", "g2"} {
		w.gateways = append(w.gateways, framework.StartGateway(w.c, name))
	}
	w.f = framework.NewFixture(w.c)
	return w
}

// everywhere is what the gateways answer to a token.
func (w *world) everywhere(token string) []int {
	var all []int
	for _, g := range w.gateways {
		all = append(all, w.f.Status(g.HTTP, token))
	}
	return all
}

// accepted and refused are the answers of all gateways.
func accepted() types.GomegaMatcher { return HaveEach(200) }
func refused() types.GomegaMatcher  { return HaveEach(401) }

func (w *world) mint() string { return w.f.MustMint(w.gateways[0].HTTPS) }

// up reports whether the control plane says that it writes to Redis.
func (w *world) up() bool { return w.shows("redis_up", 1) }

// linked reports whether all gateways are linked to the control plane.
func (w *world) linked() bool { return w.shows("live_leases", len(w.gateways)) }

// shows reports whether the control plane gives a figure that value.
func (w *world) shows(figure string, value int) bool {
	r, err := framework.Page(w.c.Diagnostics)
	return err == nil && strings.Contains(r.Body, fmt.Sprintf("\nmeshgate_%s %d\n", figure, value))
}

// story is what holds with every Redis in every state: tokens are issued and
// accepted, and refused everywhere from the answer to their revocation on.
func (w *world) story() {
	GinkgoHelper()
	if w.good == "" {
		w.good = w.mint()
	}
	token := w.mint()
	Expect(w.everywhere(token)).To(accepted())
	began := time.Now()
	w.f.Must(204, http.MethodDelete, "/oauth2_tokens/"+token, nil)
	waited := time.Since(began)
	Expect(w.everywhere(token)).To(refused())
	Expect(waited).To(BeNumerically("<", 8*time.Second), "a caller waits 4 s at most")
	w.gone = append(w.gone, token)
	Expect(w.everywhere(w.good)).To(accepted())
	w.noneReturns()
}

// noneReturns demands that no gateway accepts what was revoked.
func (w *world) noneReturns() {
	GinkgoHelper()
	for _, token := range w.gone {
		Expect(w.everywhere(token)).NotTo(ContainElement(200))
	}
}

// alone takes the control plane away under load: the gateways live on what is in
// Redis. There is nobody else to ask: where a busy machine takes longer for a read
// than a gateway waits for Redis, that one request is told so. After three of those in a
// row the gateway leaves Redis alone for half a second, and says so. It refuses quickly
// meanwhile, so that the share of these requests says nothing.
func (w *world) alone() {
	GinkgoHelper()
	w.readable(w.good)
	silences := func(g *framework.Gateway) int { return strings.Count(g.Output(), "left alone for a while") }
	var loads []*framework.Load
	var known []int
	for _, g := range w.gateways {
		known = append(known, silences(g))
		loads = append(loads, framework.StartLoad(w.f, g.HTTP, w.good, 1))
	}
	before := w.reads()
	gone := time.Now()
	w.c.Kill()
	Eventually(w.reads, patience, 20*time.Millisecond).Should(BeNumerically(">", before+200), "the leases are over, Redis is read")
	Eventually(func() time.Duration { return time.Since(gone) }, patience, 50*time.Millisecond).Should(BeNumerically(">", 5*time.Second))
	w.noneReturns()
	for i, l := range loads {
		total, failures := l.Stop()
		unavailable := 0
		for _, f := range failures {
			times, outcome, _ := strings.Cut(f, " times ")
			Expect(outcome).To(HavePrefix("503 "))
			n, err := strconv.Atoi(times)
			Expect(err).NotTo(HaveOccurred())
			unavailable += n
		}
		if unavailable > total/100 {
			Eventually(func() int { return silences(w.gateways[i]) }, patience, 50*time.Millisecond).
				Should(BeNumerically(">", known[i]), "%d of %d requests without a control plane were refused", unavailable, total)
		}
	}
	w.back()
}

// back starts the control plane again and waits until all is as before.
func (w *world) back() {
	GinkgoHelper()
	w.c.Start()
	Eventually(w.linked, patience, 50*time.Millisecond).Should(BeTrue())
	Eventually(func() []int { return w.everywhere(w.good) }, patience, 50*time.Millisecond).Should(accepted())
	w.noneReturns()
	w.story()
}

// readable waits until the control plane writes to Redis, and what stands there
// for a token is of the epoch that it vouches for.
func (w *world) readable(token string) {
	GinkgoHelper()
	Eventually(w.up, patience, 50*time.Millisecond).Should(BeTrue())
	hash := sha256.Sum256([]byte(token))
	Eventually(func(g Gomega) {
		g.Expect(w.everywhere(token)).To(accepted())
		current := w.epoch()
		g.Expect(current).NotTo(BeEmpty())
		g.Expect(epoch.FindString(w.get("meshgate:token:default:" + hex.EncodeToString(hash[:])))).To(Equal(current))
	}, patience, 50*time.Millisecond).Should(Succeed())
}

// epoch is what the control plane vouches for, as Redis has it.
func (w *world) epoch() string { return epoch.FindString(w.get("meshgate:clock")) }

// replaced waits until the control plane vouches for another Redis than the one
// whose epoch was given, and all gateways have heard of it.
func (w *world) replaced(before string) {
	GinkgoHelper()
	Eventually(w.epoch, patience, 50*time.Millisecond).ShouldNot(Or(BeEmpty(), Equal(before)))
	w.story() // what is acknowledged later was heard later
}

// epoch is a part of the clock and of each record.
var epoch = regexp.MustCompile(`"epoch":[^,}]+`)

// stranded takes the control plane away while Redis cannot be believed: nobody is
// left to ask, and the gateways say so.
func (w *world) stranded() {
	GinkgoHelper()
	w.c.Kill()
	Eventually(func() []int { return w.everywhere(w.good) }, patience, 50*time.Millisecond).Should(HaveEach(503))
	w.noneReturns()
}
