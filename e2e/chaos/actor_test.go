package chaos_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/meshgate/meshgate/e2e/framework"
)

// life of tokens, in seconds: so long that none ends by itself while it is checked,
// and so short that a long run reaches a steady state.
const life = 1800

// goodWay is the way of tokens that are never revoked.
const goodWay = "good"

// actor is one client: it issues, checks and revokes.
type actor struct {
	w      *world
	number int
	made   int
	rng    *rand.Rand
	// short gives up on a proxy that hangs, long waits for what the control plane
	// says about a revocation.
	short, long *http.Client
}

func newActor(w *world, number int) *actor {
	return &actor{w: w, number: number, rng: rand.New(rand.NewPCG(w.seed, uint64(number))), short: w.short, long: w.long}
}

// pause lets a time pass and reports whether the run goes on.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// name is one that nothing had before.
func (a *actor) name(prefix string) string {
	a.made++
	return fmt.Sprintf("%s-%d-%d", prefix, a.number, a.made)
}

// value is a random token.
func (a *actor) value() string {
	return fmt.Sprintf("%016x%016x", a.rng.Uint64(), a.rng.Uint64())
}

// reply is an answer of the control plane; the status is 0 without one.
type reply struct {
	status int
	answer map[string]any
	// revision is that of a write.
	revision string
	// warned: the answer says that what it ends may still be accepted. A token is issued
	// all the same, because what it was exchanged for is used up.
	warned bool
}

// text is a member of the answer.
func (r reply) text(member string) string {
	s, _ := r.answer[member].(string)
	return s
}

// remark is what the history of a credential says of an answer.
func (r reply) remark() string {
	return strings.TrimSpace(r.revision + " " + r.text("message") + r.text("error"))
}

// admin calls the administration API.
func (a *actor) admin(method, path string, doc any) reply {
	var body []byte
	header := http.Header{}
	if doc != nil {
		body, _ = json.Marshal(doc)
		header.Set("Content-Type", "application/json")
	}
	return decode(framework.Do(a.long, method, a.w.api.AdminURL(path), header, string(body)))
}

func decode(r *framework.Response, err error) reply {
	if err != nil {
		return reply{answer: map[string]any{"message": err.Error()}}
	}
	out := reply{status: r.Status, revision: r.Header.Get("X-Mesh-Revision"), warned: r.Header.Get("Warning") != ""}
	_ = json.Unmarshal([]byte(r.Body), &out.answer) // not every answer is a document
	return out
}

// create makes an entity, again and again until it is there. The answer is empty
// when the run is over.
func (a *actor) create(ctx context.Context, path string, doc any) reply {
	for ctx.Err() == nil {
		r := a.admin(http.MethodPost, path, doc)
		if r.status == http.StatusCreated {
			return r
		}
		if r.status == http.StatusConflict { // made by an attempt whose answer was lost
			return reply{}
		}
		pause(ctx, 50*time.Millisecond)
	}
	return reply{}
}

// token issues an access token of an application over the administration API.
func (a *actor) token(ctx context.Context, app string, more map[string]any) (id, value string) {
	doc := map[string]any{"credential": map[string]any{"id": app}, "service": map[string]any{"id": a.w.service}, "expires_in": life, "scope": "email"}
	for k, v := range more {
		doc[k] = v
	}
	r := a.create(ctx, "/oauth2_tokens", doc)
	return r.text("id"), r.text("access_token")
}

// gateway is a random one.
func (a *actor) gateway() *proxy { return a.w.proxies[a.rng.IntN(gateways)] }

// oauth calls an endpoint of a gateway.
func (a *actor) oauth(p *proxy, endpoint string, form url.Values) reply {
	form.Set("client_id", clientID)
	form.Set("client_secret", clientSecret)
	return decode(framework.Do(a.long, http.MethodPost, p.tls+endpoint, http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}, form.Encode()))
}

// see asks a URL and reports whether the answer shows what was revoked: any answer
// of the service, or one with a header.
func (a *actor) see(u, authorization, key, header, old string) (status int, accepted bool) {
	h := http.Header{}
	if key != "" {
		h.Set("Apikey", key)
	} else {
		h.Set("Authorization", "Bearer "+authorization)
	}
	r, err := framework.Do(a.short, http.MethodGet, u, h, "")
	if err != nil {
		return 0, false
	}
	if r.Status != http.StatusOK || header == "" {
		return r.Status, r.Status == http.StatusOK
	}
	var got framework.Received
	if err := json.Unmarshal([]byte(r.Body), &got); err != nil {
		return 0, false
	}
	return r.Status, got.Headers.Get(header) == old
}

// born is a credential that was just made.
func (a *actor) born(way, name string, show func(*proxy) (int, bool)) *credential {
	c := &credential{way: way, name: name, show: show}
	now := a.w.book.time()
	c.note(event{verb: create, status: http.StatusCreated, call: 0, ret: now, faults: a.w.book.faults()})
	return c
}

// bearer is an access token.
func (a *actor) bearer(way, name, value string) *credential {
	return a.born(way, name, func(p *proxy) (int, bool) { return a.see(p.call, value, "", "", "") })
}

// state is what a proxy says about the owner of an access token.
func (a *actor) state(way, name, value, header, old string) *credential {
	return a.born(way, name, func(p *proxy) (int, bool) { return a.see(p.call, value, "", header, old) })
}

// key is an API key.
func (a *actor) key(way, name, value string) *credential {
	c := a.born(way, name, func(p *proxy) (int, bool) { return a.see(p.keys, "", value, "", "") })
	c.gatewaysOnly = true
	return c
}

// warm shows credentials to most proxies, so that each of them may remember them.
// They must be honoured if it is certain that they were made.
func (a *actor) warm(ctx context.Context, cs []*credential, certain bool) {
	show := func(c *credential, p *proxy) { a.w.book.ask(c, p) }
	if certain {
		show = a.w.book.expect
	}
	some := a.rng.IntN(10) < 3
	for _, p := range a.w.proxies {
		for _, c := range cs {
			if !some || a.rng.IntN(2) == 0 {
				show(c, p)
			}
		}
	}
	waits := []time.Duration{0, 0, 20 * time.Millisecond, 100 * time.Millisecond, 500 * time.Millisecond}
	pause(ctx, waits[a.rng.IntN(len(waits))])
}

// end revokes credentials, sometimes by two calls at the same time, and again after
// an answer that does not confirm it. It reports whether one did.
func (a *actor) end(ctx context.Context, w *way, cs []*credential, call func() reply) (confirmed bool) {
	b := a.w.book
	once := func() bool {
		e := event{verb: revoke, call: b.time(), faults: b.faults()}
		r := call()
		e.status, e.remark, e.ret = r.status, r.remark(), b.time()
		ok := e.status/100 == 2 && !r.warned || w.gone && e.status == http.StatusNotFound
		b.revocation(w.name, cs, e, ok)
		return ok
	}
	if !w.single && a.rng.IntN(6) == 0 {
		var both sync.WaitGroup
		oks := make([]bool, 2)
		for i := range oks {
			both.Go(func() { oks[i] = once() })
		}
		both.Wait()
		confirmed = oks[0] || oks[1]
	} else {
		confirmed = once()
	}
	for try := 0; !confirmed && !w.single && try < 4; try++ {
		if !pause(ctx, time.Duration(50+a.rng.IntN(400))*time.Millisecond) {
			break
		}
		confirmed = once()
	}
	order := slices.Clone(a.w.proxies)
	a.rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	for _, p := range order {
		for _, c := range cs {
			b.ask(c, p)
		}
	}
	return confirmed
}

// live revokes in one way after the other until the run is over.
func (a *actor) live(ctx context.Context) {
	for ctx.Err() == nil {
		w := pick(a.rng)
		if w.play != nil {
			w.play(ctx, a, w)
			continue
		}
		cs, call := w.prepare(ctx, a, w)
		if len(cs) == 0 {
			continue
		}
		a.warm(ctx, cs, true)
		a.w.book.keep(cs, a.end(ctx, w, cs, call))
	}
}

// look checks good and ended credentials at one proxy until the run is over.
func (a *actor) look(ctx context.Context, p *proxy) {
	for n := 0; pause(ctx, 2*time.Millisecond); n++ {
		if n%4 == 0 {
			a.w.book.ask(a.w.good[n/4%goods], p)
			continue
		}
		if c := a.w.book.draw(a.rng); c != nil {
			a.w.book.ask(c, p)
		}
	}
}
