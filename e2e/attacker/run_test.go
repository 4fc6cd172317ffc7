package attacker_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

// run is one run of the attacker.
type run struct {
	at   *door
	seed uint64
	// only is the number of the one attack to repeat; 0 means all.
	only uint64
	// attacks is how many there are.
	attacks uint64

	next   atomic.Uint64
	done   atomic.Uint64
	mu     sync.Mutex
	counts map[string]int
	wrong  []string
}

// again says how to repeat the run.
func (r *run) again() string { return fmt.Sprintf("repeat with MESHGATE_E2E_ATTACK_SEED=%d", r.seed) }

// attack attacks until all has been tried or something is wrong.
func (r *run) attack(workers int) {
	r.counts = map[string]int{}
	var work sync.WaitGroup
	for range workers {
		work.Go(func() {
			for len(r.violations()) == 0 {
				n := r.next.Add(1)
				if n > r.attacks || r.only != 0 && n > 1 {
					return
				}
				if r.only != 0 {
					n = r.only
				}
				r.one(newAttack(r.at, r.seed, n))
				r.done.Add(1)
			}
		})
	}
	work.Wait()
}

// unreadable reports whether an upstream cannot read the path. It then answers
// without having read the body and closes, which the gateway may notice while it
// is still sending.
func (a *attack) unreadable() bool {
	_, err := url.ParseRequestURI(a.path)
	return err != nil && a.body != ""
}

// one performs one attack and checks its answers; what reaches an upstream is
// judged there.
func (r *run) one(a *attack) {
	answers, err := a.send()
	switch {
	case errors.Is(err, errSilence) && !a.sane && (!a.complete || len(answers) > 0):
		r.count("waits for the rest or for more")
	case err != nil:
		r.report(a, answers, err.Error())
	}
	for _, x := range answers {
		r.count(fmt.Sprintf("answer %d", x.status))
		if x.status == http.StatusServiceUnavailable && a.unreadable() {
			r.count("the upstream broke off")
			continue
		}
		// A framing that nobody implements and a version that nobody speaks.
		if x.status >= 500 && x.status != http.StatusNotImplemented && x.status != http.StatusHTTPVersionNotSupported {
			r.report(a, answers, "an error of the gateway")
		}
		r.minted(a, answers, x.body)
	}
	if !a.sane {
		return
	}
	switch {
	case len(answers) == 0:
		r.report(a, answers, "a request that is well formed got no answer")
	case len(answers) == 1 && !answers[0].last:
		r.report(a, answers, "the connection ended without being announced")
	case len(answers) == 2 && (answers[1].status != http.StatusOK || answers[1].body != "reached "+r.at.behind.name):
		r.report(a, answers, "who came next on the connection was not served")
	case len(answers) == 2:
		r.count("served next")
	}
}

// minted checks a token that was issued: somebody had the secret of an
// application, and it holds at the service of the route.
func (r *run) minted(a *attack, answers []answer, body string) {
	var said struct {
		Token string `json:"access_token"`
	}
	if json.Unmarshal([]byte(body), &said) != nil || said.Token == "" {
		return
	}
	r.count("tokens issued")
	if !r.at.issues {
		r.report(a, answers, "a token from who issues none")
		return
	}
	if !a.client {
		r.report(a, answers, "a token without the secret of an application")
		return
	}
	got, err := framework.Do(api.HTTP, http.MethodGet, api.AdminURL("/oauth2_tokens/"+url.PathEscape(said.Token)), nil, "")
	if err != nil || got.Status != http.StatusOK {
		r.report(a, answers, fmt.Sprintf("a token that cannot be looked up: %v %v", got, err))
		return
	}
	var stored struct {
		Service string `json:"service_id"`
	}
	if err := json.Unmarshal([]byte(got.Body), &stored); err != nil {
		r.report(a, answers, err.Error())
	}
	for _, t := range targets {
		bound := stored.Service == t.service && !t.global || stored.Service == "" && t.global
		if bound && t.has("oauth2") && (t == a.target || !a.exact) {
			return
		}
	}
	r.report(a, answers, "a token of another service: "+got.Body)
}

func (r *run) count(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts[what]++
}

func (r *run) report(a *attack, answers []answer, problem string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wrong = append(r.wrong, fmt.Sprintf("%s: %v\n%s", problem, answers, a))
}

// violations are what was wrong with answers and at upstreams.
func (r *run) violations() []string {
	r.mu.Lock()
	out := slices.Clone(r.wrong)
	r.mu.Unlock()
	for _, t := range r.at.targets {
		t.arrived.mu.Lock()
		out = append(out, t.arrived.wrong...)
		t.arrived.mu.Unlock()
	}
	return out
}

// summary says what happened, in one line each.
func (r *run) summary() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	lines := []string{fmt.Sprintf("%d attacks", r.done.Load())}
	for _, k := range slices.Sorted(maps.Keys(r.counts)) {
		lines = append(lines, fmt.Sprintf("%6d %s", r.counts[k], k))
	}
	for _, t := range r.at.targets {
		lines = append(lines, fmt.Sprintf("%6d reached %s", t.arrived.requests, t.name))
	}
	return strings.Join(lines, "\n")
}

// expectCoverage makes sure that the attacker tried: that all attacks were made,
// that some of what she sent was good, and arrived.
func (r *run) expectCoverage() {
	Expect(r.done.Load()).To(Equal(r.attacks), r.summary())
	Expect(r.counts).To(And(HaveKey("served next"), HaveKey("answer 401"), HaveKey("answer 400")), r.summary())
	if r.at.issues {
		Expect(r.counts).To(And(HaveKey("tokens issued"), HaveKey("answer 404"), HaveKey("answer 405")), r.summary())
	}
	for _, t := range r.at.targets {
		if t.name != "closed" {
			Expect(t.arrived.requests).To(BeNumerically(">", 0), "nothing reached %s, so nothing was proved\n%s", t.name, r.summary())
		}
	}
}
