package faults_test

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

// A token's value at one gateway as a register: issued, deleted and issued again
// by calls that concern all gateways. A check sees whether it is accepted. So from
// the answer to a call on all gateways agree; while it lasts, one may be ahead of
// another. A call that did not answer with success may or may not have taken
// effect, so it counts as running until the end of the history.
type operation struct {
	write, good bool // of a write: whether the value is good afterwards
	token       int
	// gateway is the port that was asked, for checks.
	gateway int
}

var tokenModel = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		type key struct{ token, gateway int }
		by, writes := map[key][]porcupine.Operation{}, map[int][]porcupine.Operation{}
		for _, o := range history {
			in := o.Input.(operation)
			if in.write {
				writes[in.token] = append(writes[in.token], o)
				continue
			}
			by[key{in.token, in.gateway}] = append(by[key{in.token, in.gateway}], o)
		}
		var out [][]porcupine.Operation
		for k, h := range by {
			out = append(out, append(h, writes[k.token]...))
		}
		return out
	},
	Init: func() any { return false },
	Step: func(state, input, output any) (bool, any) {
		if in := input.(operation); in.write {
			return true, in.good
		}
		return output.(bool) == state.(bool), state
	},
}

// chronicle collects a history.
type chronicle struct {
	begin time.Time

	mu      sync.Mutex
	history []porcupine.Operation
	phases  []*phase // the last one is now
	unclear int
}

// phase is the time between two faults, and what began and ended in it.
type phase struct {
	name              string
	accepted, refused map[int]int // checks, by gateway
	created, deleted  int         // confirmed
}

// enter begins a phase.
func (c *chronicle) enter(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.phases = append(c.phases, &phase{name: name, accepted: map[int]int{}, refused: map[int]int{}})
}

// current is the phase of now.
func (c *chronicle) current() *phase {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.phases[len(c.phases)-1]
}

// sum adds up what all phases say.
func (c *chronicle) sum(of func(*phase) int) (n int) {
	for _, p := range c.phases {
		n += of(p)
	}
	return n
}

func (c *chronicle) now() int64 { return time.Since(c.begin).Nanoseconds() }

func (c *chronicle) note(client int, in operation, out any, call, ret int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.history = append(c.history, porcupine.Operation{ClientId: client, Input: in, Output: out, Call: call, Return: ret})
}

// check notes what a gateway says about a token.
func (c *chronicle) check(client, port, token int, status func() int) {
	began, call := c.current(), c.now()
	got := status()
	ret := c.now()
	c.mu.Lock()
	within := began == c.phases[len(c.phases)-1]
	switch {
	case got != http.StatusOK && got != http.StatusUnauthorized: // no decision about the token
		c.unclear++
		c.mu.Unlock()
		return
	case within && got == http.StatusOK:
		began.accepted[port]++
	case within:
		began.refused[port]++
	}
	c.mu.Unlock()
	c.note(client, operation{token: token, gateway: port}, got == http.StatusOK, call, ret)
}

var _ = Describe("token histories over three gateways", func() {
	It("are linearizable while Redis loses everything, comes and goes, and falls silent", func() {
		redis := framework.StartRedis()
		c := framework.NewControlPlane("run", redis.Flags()...).Start()
		gateways := []*framework.Gateway{framework.StartGateway(c, "a"), framework.StartGateway(c, "b"), framework.StartGateway(c, "c")}
		f := framework.NewFixture(c)
		app := f.Must(200, http.MethodGet, "/oauth2/"+framework.ClientID, nil).JSON()["id"]
		service := f.Must(200, http.MethodGet, "/services/api", nil).JSON()["id"]

		const values, rounds = 12, 3
		const writes = values * rounds
		all := &chronicle{begin: time.Now()}
		all.enter("Redis serves")
		name := func(i int) string { return fmt.Sprintf("%032d", i) }
		stop := make(chan struct{})
		var checkers sync.WaitGroup
		for worker := range 2 * len(gateways) {
			port := gateways[worker%len(gateways)].HTTP
			checkers.Go(func() {
				for i := worker; ; i++ {
					select {
					case <-stop:
						return
					default:
					}
					all.check(worker, port, i%values, func() int { return f.Status(port, name(i%values)) })
				}
			})
		}
		write := func(token int, good bool, want int, method, path, body string) {
			call, ret := all.now(), int64(math.MaxInt64)
			r, err := framework.Do(f.HTTP, method, f.AdminURL(path), http.Header{"Content-Type": {"application/json"}}, body)
			if err == nil && r.Status == want {
				ret = all.now()
				now := all.current() // faults come between writes
				if good {
					now.created++
				} else {
					now.deleted++
				}
			}
			all.note(100, operation{write: true, good: good, token: token}, nil, call, ret)
			for i, g := range gateways { // at once, from each
				all.check(200+i, g.HTTP, token, func() int { return f.Status(g.HTTP, name(token)) })
			}
		}
		// What happens to Redis, and after how many writes.
		type fault struct {
			name string
			do   func()
		}
		faults := map[int]fault{
			writes / 6:     {"Redis is dead", redis.Kill},
			writes/6 + 2:   {"Redis lost everything", redis.Restart}, // another primary
			writes / 2:     {"Redis is silent", redis.Pause},         // packets go nowhere, and nobody is told
			writes/2 + 3:   {"Redis speaks again", redis.Resume},
			writes * 5 / 6: {"Redis lost everything again", func() { redis.Kill(); redis.Restart() }},
		}
		for n := range writes {
			if fault, ok := faults[n]; ok {
				fault.do()
				all.enter(fault.name)
			}
			token := n % values
			body, err := json.Marshal(map[string]any{"credential": map[string]any{"id": app}, "service": map[string]any{"id": service}, "expires_in": 3600, "access_token": name(token)})
			Expect(err).NotTo(HaveOccurred())
			write(token, true, http.StatusCreated, http.MethodPost, "/oauth2_tokens", string(body))
			write(token, false, http.StatusNoContent, http.MethodDelete, "/oauth2_tokens/"+name(token), "")
		}
		close(stop)
		checkers.Wait()
		answered := all.sum(func(p *phase) int { return p.created + p.deleted })
		By(fmt.Sprintf("%d operations, %d of %d writes confirmed, %d without a decision", len(all.history), answered, 2*writes, all.unclear))
		for _, p := range all.phases {
			By(fmt.Sprintf("%s: %d created, %d deleted, accepted %v, refused %v", p.name, p.created, p.deleted, p.accepted, p.refused))
		}
		Expect(porcupine.CheckOperationsTimeout(tokenModel, all.history, time.Minute)).To(Equal(porcupine.Ok))
		for i := range values {
			for _, g := range gateways {
				Expect(f.Status(g.HTTP, name(i))).To(Equal(401))
			}
		}
		// The history must say something: of each gateway, in both states, in each
		// phase, with most calls confirmed and next to no request undecided.
		Expect(answered).To(BeNumerically(">=", 2*writes*9/10), "writes that are confirmed")
		for _, p := range all.phases {
			Expect(p.created).To(BeNumerically(">=", 1), "confirmed POSTs while %s", p.name)
			Expect(p.deleted).To(BeNumerically(">=", 1), "confirmed DELETEs while %s", p.name)
			for _, g := range gateways {
				Expect(p.accepted[g.HTTP]).To(BeNumerically(">=", 1), "accepted at %s while %s", g.Name, p.name)
				Expect(p.refused[g.HTTP]).To(BeNumerically(">=", 1), "refused at %s while %s", g.Name, p.name)
			}
		}
		for _, g := range gateways {
			accepted := all.sum(func(p *phase) int { return p.accepted[g.HTTP] })
			refused := all.sum(func(p *phase) int { return p.refused[g.HTTP] })
			Expect(accepted).To(BeNumerically(">=", writes), "accepted at %s", g.Name)
			Expect(refused).To(BeNumerically(">=", 2*writes), "refused at %s", g.Name)
		}
		Expect(all.unclear*20).To(BeNumerically("<=", len(all.history)), "requests without a decision")
	})
})
