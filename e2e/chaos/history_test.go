package chaos_test

import (
	"fmt"
	"math"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
)

// verb is what an operation does to a credential.
type verb uint8

const (
	// check shows the credential to a proxy.
	check verb = iota
	// create makes it good, revoke ends it.
	create
	revoke
)

// never is the return time of a call that was not answered with success: it may
// take effect at any time after it began, or not at all.
const never = math.MaxInt64

// event is one operation on a credential. Times are nanoseconds since the start of
// the run, on a monotonic clock.
type event struct {
	verb      verb
	proxy     int // of a check
	status    int // of the answer, 0 for none
	accepted  bool
	call, ret int64
	faults    string // at the time of the call
	remark    string // of a write: its revision and what was said
}

// String is a line for the history of a violation.
func (e event) String() string {
	span := fmt.Sprintf("%9.3f to %9.3f", float64(e.call)/1e9, float64(e.ret)/1e9)
	if e.ret == never {
		span = fmt.Sprintf("%9.3f to (not confirmed)", float64(e.call)/1e9)
	}
	switch e.verb {
	case create:
		return fmt.Sprintf("%s created, %d %s [%s]", span, e.status, e.remark, e.faults)
	case revoke:
		return fmt.Sprintf("%s revoked, %d %s [%s]", span, e.status, e.remark, e.faults)
	}
	return fmt.Sprintf("%s %s at %s, %d [%s]", span, map[bool]string{true: "ACCEPTED", false: "not accepted"}[e.accepted], proxyNames[e.proxy], e.status, e.faults)
}

// decided reports whether an answer of a proxy says something about a credential.
// All others tell of an outage.
func decided(status int) bool {
	return status == http.StatusOK || status == http.StatusUnauthorized || status == http.StatusForbidden
}

// promise is a credential at one proxy: good or not. Whoever accepts it must find
// it good at some moment of the check. A refusal is always allowed: availability is
// another matter.
var promise = porcupine.Model{
	Init: func() any { return false },
	Step: func(state, input, _ any) (bool, any) {
		switch e := input.(event); {
		case e.verb == create:
			return true, true
		case e.verb == revoke:
			return true, false
		case e.accepted:
			return state.(bool), state
		}
		return true, state
	},
}

// credential is a token, a key, or a state of one that a PATCH ends.
type credential struct {
	way  string // that it is revoked by
	name string // that reports call it by
	// show presents it to a proxy. Accepted means that the proxy honours the state
	// that was revoked.
	show func(p *proxy) (status int, accepted bool)
	// gatewaysOnly is set for what sidecars do not take.
	gatewaysOnly bool

	mu     sync.Mutex
	events []event
	bad    bool // a violation was reported
}

// note adds an operation.
func (c *credential) note(e event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events = append(c.events, e)
}

// suspicious reports whether an acceptance could break the promise: there is a
// confirmed revocation before it.
func (c *credential) suspicious(e event) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, other := range c.events {
		if other.verb == revoke && other.ret < e.call {
			return !c.bad
		}
	}
	return false
}

// broken holds the history at every proxy against the promise, and returns the
// proxies that broke it and those whose history could not be decided in time.
func (c *credential) broken() (violated, open []int) {
	c.mu.Lock()
	events := c.events[:len(c.events):len(c.events)]
	c.mu.Unlock()
	for p := range proxyNames {
		var history []porcupine.Operation
		for _, e := range events {
			if e.verb == check && (e.proxy != p || !decided(e.status)) {
				continue
			}
			history = append(history, porcupine.Operation{ClientId: len(history), Input: e, Call: e.call, Return: e.ret})
		}
		switch porcupine.CheckOperationsTimeout(promise, history, 20*time.Second) {
		case porcupine.Illegal:
			violated = append(violated, p)
		case porcupine.Unknown:
			open = append(open, p)
		}
	}
	return violated, open
}

// condemn marks a credential whose violation is reported, and says whether it was
// not yet.
func (c *credential) condemn() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.bad
	c.bad = true
	return !was
}

// shown is how many events a history shows at its beginning and at its end.
const shown = 30

// history is what happened to the credential, line by line.
func (c *credential) history() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var b strings.Builder
	fmt.Fprintf(&b, "%s (%s), %d operations:\n", c.name, c.way, len(c.events))
	for i, e := range c.events {
		if i == shown && len(c.events) > 2*shown {
			b.WriteString("  ...\n")
		}
		if i < shown || i >= len(c.events)-shown {
			fmt.Fprintf(&b, "  %s\n", e)
		}
	}
	return b.String()
}
