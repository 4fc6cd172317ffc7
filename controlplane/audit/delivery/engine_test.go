package delivery

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/admit/admittest"
	"github.com/meshgate/meshgate/controlplane/audit"
	"github.com/meshgate/meshgate/controlplane/audit/syslog"
	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/lease"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/outward"
	"github.com/meshgate/meshgate/controlplane/steady"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/controlplane/store/notice"
)

// world is an engine over a store. Waits between attempts take no time, those after deliveries that
// have failed last until settings change or [world.resume].
type world struct {
	t      testing.TB
	s      *notice.Store
	gate   *admit.Gate
	writer lease.Writer
	sole   bool
	span   time.Duration
	// natural lets waits take their time.
	natural bool
	// connects, if set, is told of each connection before it is made, and refuses it if it returns true.
	connects func(netip.AddrPort) bool
	// gathers, if set, is called while the first event of a batch waits for others.
	gathers func()
	// mute lets the engine that was started last write nothing any more.
	mute  *atomic.Bool
	sinks []syslog.Target
	// own says that sinks get the log of the control plane, too.
	own    bool
	log    *slog.Logger
	clock  *steady.Clock
	base   time.Time
	engine *Engine
	ctx    context.Context //nolint:containedctx // that of the engine

	mu    sync.Mutex
	now   time.Time
	off   time.Duration
	waits []time.Duration
	// hold, if set, makes waits between attempts last until something happens, too.
	hold bool
	held chan struct{}
	over chan struct{}
	// lingers has an entry for each time that a worker had nothing to do.
	lingers chan struct{}
	// rests has an entry for each time that the engine has tidied up, which it does again when hours has one.
	rests, hours chan struct{}
	// keys are those that sign.
	keys func() []ed25519.PrivateKey
	// prepare, if set, is told of an engine before it runs.
	prepare func(*Engine)
}

func newWorld(t *testing.T) *world {
	w := blankWorld(t)
	w.open(memstore.Open(memstore.Options{Now: w.time}))
	return w
}

func blankWorld(t testing.TB) *world {
	now := time.Now()
	w := &world{t: t, now: now, base: now, held: make(chan struct{}, 1000), over: make(chan struct{}), lingers: make(chan struct{}, 1000), rests: make(chan struct{}, 1000), hours: make(chan struct{}), sole: true, log: slog.New(slog.DiscardHandler)}
	w.clock = steady.New(w.wall)
	keys := []ed25519.PrivateKey{ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))}
	w.keys = func() []ed25519.PrivateKey { return keys }
	return w
}

// wall is the wall clock of the host, and the time that has passed.
func (w *world) wall() (time.Time, time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now.Add(w.off), w.now.Sub(w.base)
}

// open begins with a store.
func (w *world) open(s store.Store) {
	w.s = notice.New(s)
	w.t.Cleanup(func() { _ = w.s.Close() })
	w.gate = admit.New(w.s, &admittest.Revoker{}, slices.Concat(cloud.Kinds(), lease.Kinds()), w.time).As(model.System("audit"))
	w.writer = w.gate
}

// time is the wall clock, as the store stamps its commits.
func (w *world) time() time.Time { return w.clock.Now() }

// pass lets time pass.
func (w *world) pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

// set sets the wall clock ahead of the right time.
func (w *world) set(ahead time.Duration) {
	w.mu.Lock()
	w.off = ahead
	w.mu.Unlock()
	w.clock.Now()
}

func (w *world) rest(ctx context.Context, d time.Duration) error {
	if w.natural {
		return natural(ctx, d)
	}
	switch d {
	case Window:
		if w.gathers != nil {
			w.gathers()
		}
		return ctx.Err()
	case tidying:
		w.mu.Lock()
		rests := w.rests
		w.mu.Unlock()
		rests <- struct{}{}
		select {
		case <-ctx.Done():
		case <-w.hours:
			w.pass(d)
		}
		return ctx.Err()
	case linger:
		select {
		case w.lingers <- struct{}{}:
		default:
		}
		<-ctx.Done()
		return ctx.Err()
	}
	w.mu.Lock()
	w.waits = append(w.waits, d)
	hold := w.hold || d >= minPause
	w.mu.Unlock()
	if hold {
		w.held <- struct{}{}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-w.over:
		}
	}
	w.pass(d)
	return ctx.Err()
}

// hour lets an hour pass after the engine has tidied up, and waits until it has done so again.
func (w *world) hour() {
	<-w.rests
	w.hours <- struct{}{}
	<-w.rests
	w.rests <- struct{}{} // for the next one
}

// resume ends a wait.
func (w *world) resume() { w.over <- struct{}{} }

// waited are the waits so far.
func (w *world) waited() []time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.waits)
}

// ready makes an engine, and the client that it uses.
func (w *world) ready() (*Engine, *outward.Client) {
	w.t.Helper()
	client := outward.New(outward.Options{Allowed: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Own: w.connects})
	mute, inner := &atomic.Bool{}, w.writer
	w.mute = mute
	own := writer(func(ctx context.Context, class model.Class, fn func(store.Tx) error) (store.Commit, error) {
		if mute.Load() {
			return store.Commit{}, errors.New("nobody hears it")
		}
		return inner.Write(ctx, class, fn)
	})
	e := New(Options{
		Store: w.s, Writer: own, Signer: audit.NewSigner(w.keys), Verifying: client, Trusting: client, Log: w.log, Now: w.time, Rest: w.rest,
		Clock: w.clock, Commits: w.s, Leases: lease.New(lease.Options{Writer: own, Holder: uuid.NewString(), Sole: w.sole, Span: w.span}), Sinks: w.sinks, ControlPlane: w.own,
	})
	w.engine = e
	return e, client
}

// start runs an engine; the returned function ends it. The engine has looked at each portal and follows what changes:
// nothing but what happens from now on wakes anybody up.
func (w *world) start() (stop func()) {
	w.t.Helper()
	stop, follows := w.launch()
	select {
	case <-follows:
	case <-time.After(patience):
		w.t.Fatal("the engine does not follow the store")
	}
	return stop
}

// launch runs an engine, and says when it follows the store.
func (w *world) launch() (stop func(), follows <-chan struct{}) {
	w.t.Helper()
	e, client := w.ready()
	begun := make(chan struct{})
	e.Store = followed{e.Store, sync.OnceFunc(func() { close(begun) })}
	w.mu.Lock()
	w.rests = make(chan struct{}, 1000) // an engine that runs beside this one reads it
	w.mu.Unlock()
	ctx, cancel := context.WithCancel(context.Background())
	w.ctx = ctx
	if w.prepare != nil {
		w.prepare(e)
	}
	done := make(chan error)
	go func() { done <- e.Run(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				w.t.Errorf("the engine ended: %v", err)
			}
			client.Close()
		})
	}
	w.t.Cleanup(stop)
	return stop, begun
}

// followed is a store that says when somebody follows it.
type followed struct {
	store.Store
	tell func()
}

func (f followed) Watch(ctx context.Context, after uint64) iter.Seq2[[]store.Event, error] {
	f.tell()
	return f.Store.Watch(ctx, after)
}

func (w *world) write(fn func(store.Tx) error) {
	w.t.Helper()
	if _, err := w.gate.Write(context.Background(), model.Config, fn); err != nil {
		w.t.Fatal(err)
	}
}

// put writes a resource, whether there is one or not.
func put(tx store.Tx, k *model.Kind, name string, spec any) error {
	r := &model.Resource{Kind: k, Name: name, Spec: spec}
	if _, err := tx.Get(k, "", name); err != nil {
		_, err = tx.Create(r)
		return err
	}
	_, err := tx.Update(r, 0)
	return err
}

// hook leads the log of a portal to a receiver.
func (w *world) hook(portal string, to *receiver, enabled bool) {
	w.t.Helper()
	w.write(func(tx store.Tx) error {
		id := "to-" + to.URL
		if err := put(tx, cloud.Destinations, id, &cloud.Destination{Name: id, Endpoint: to.URL, Authorization: "Basic c2VjcmV0", LogFormat: cloud.FormatJSON}); err != nil {
			return err
		}
		return put(tx, cloud.Webhooks, portal, &cloud.Webhook{Enabled: enabled, Destination: id})
	})
}

// happen makes events of a portal, each in a transaction of its own.
func (w *world) happen(portal string, from, to int) (ids []string) {
	w.t.Helper()
	for i := from; i < to; i++ {
		id := fmt.Sprintf("%s-%d", portal, i)
		ids = append(ids, id)
		w.write(func(tx store.Tx) error {
			return Put(tx, audit.Event{ID: id, Portal: portal, Time: w.time(), Outcome: audit.Success, Method: audit.Basic})
		})
	}
	return ids
}

// progress is what is stored about the delivery of a portal.
func (w *world) progress(portal string) (d cloud.Delivery) {
	w.t.Helper()
	err := w.s.View(context.Background(), func(r store.Reader) error {
		p, _, err := progressOf(r, portal)
		if err == nil {
			d = *p
		}
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return d
}

// patience is for how long something is waited for: a machine may be slow.
const patience = time.Minute

// until waits for a condition.
func until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not in time", what)
		}
	}
}

// TestInOrderAndOnce: whatever fails on the way, each event arrives once, in the order in which they
// happened.
func TestInOrderAndOnce(t *testing.T) {
	w := newWorld(t)
	r := newReceiver(t, 500, 429, 200, 503, 500, 500, 500, 200, 502)
	w.hook("p", r, true)
	want := w.happen("p", 0, 50)
	stop := w.start()
	want = append(want, w.happen("p", 50, 600)...)
	until(t, "all events", func() bool { return w.progress("p").Cursor == cloud.EventName("p", 600) })
	stop()
	if got := r.events(); !slices.Equal(got, want) {
		t.Errorf("%d events arrived: %v", len(got), got)
	}
	if d := w.progress("p"); d.Failed || d.Code != http.StatusOK {
		t.Errorf("%+v", d)
	}
}

// TestAfterAnOutage: after all attempts have failed nothing is lost, and the receiver is left alone for a
// while, whatever happens. Then it gets everything.
func TestAfterAnOutage(t *testing.T) {
	w := newWorld(t)
	r := newReceiver(t, slices.Repeat([]int{500}, 10)...)
	w.hook("p", r, true)
	others := w.bystander()
	w.start()
	want := w.happen("p", 0, 3)
	<-w.held
	if d := w.progress("p"); !d.Failed || d.Code != http.StatusInternalServerError || d.Cursor != cloud.EventName("p", 0) {
		t.Errorf("%+v", d)
	}
	want = append(want, w.happen("p", 3, 4)...)
	others()
	if n := r.requests(); n != 5 {
		t.Errorf("%d requests, with those of the new event", n)
	}
	w.resume()
	<-w.held
	second := []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second}
	if got := w.waited(); !slices.Equal(got, slices.Concat(second, []time.Duration{minPause}, second, []time.Duration{2 * minPause})) {
		t.Errorf("the waits are %v", got)
	}
	until(t, "the figures", func() bool { // that of the bystander is stored a moment later
		events, inactive, err := w.engine.Waiting(t.Context())
		return events == 4 && inactive == 1 && err == nil
	})
	w.resume()
	until(t, "all events", func() bool { return len(r.events()) == 4 })
	if got := r.events(); !slices.Equal(got, want) {
		t.Errorf("%v arrived", got)
	}
	until(t, "active", func() bool { return !w.progress("p").Failed })
}

// idle makes a change, and waits until the only worker has seen it and has nothing to do.
func (w *world) idle(change func()) {
	for len(w.lingers) > 0 { // of before
		<-w.lingers
	}
	change()
	<-w.lingers
}

// bystander leads another portal to a receiver. The returned function waits until the engine has delivered
// an event of it: whatever it does about what happened before, it has begun.
func (w *world) bystander() (pass func()) {
	w.t.Helper()
	r := newReceiver(w.t)
	w.hook("other", r, true)
	n := 0
	return func() {
		w.t.Helper()
		w.happen("other", n, n+1)
		n++
		until(w.t, "the other portal", func() bool { return len(r.events()) == n })
	}
}

// TestEndsAtAnyPoint: an engine that ends and one that begins repeat no more than what was under way,
// and lose nothing.
func TestEndsAtAnyPoint(t *testing.T) {
	w := newWorld(t)
	r := newReceiver(t)
	w.hook("p", r, true)
	var want []string
	for i := range 20 {
		stop := w.start()
		want = append(want, w.happen("p", 10*i, 10*i+10)...)
		stop()
	}
	w.start()
	until(t, "all events", func() bool { return slices.Contains(r.events(), want[len(want)-1]) })
	seen := map[string]bool{}
	var first []string
	for _, id := range r.events() {
		if !seen[id] {
			first = append(first, id)
		}
		seen[id] = true
	}
	if !slices.Equal(first, want) {
		t.Errorf("%d of %d events arrived, or in another order: %v", len(first), len(want), first)
	}
}

// TestOneHoldsUpNobodyElse: a receiver that is dead holds up its own portals only.
func TestOneHoldsUpNobodyElse(t *testing.T) {
	w := newWorld(t)
	w.hold = true
	dead, alive := newReceiver(t, slices.Repeat([]int{500}, 100)...), newReceiver(t)
	w.hook("dead", dead, true)
	w.hook("alive", alive, true)
	w.start()
	w.happen("dead", 0, 3)
	<-w.held // between two attempts
	want := w.happen("alive", 0, 30)
	until(t, "the events of the other", func() bool { return len(alive.events()) == len(want) })
	if d := w.progress("dead"); d.Code != 500 || d.Failed || d.AttemptedAt == 0 {
		t.Errorf("between two attempts: %+v", d)
	}
}

// TestPaused: a webhook that is switched off between two attempts is left alone, and goes on where it
// stopped.
func TestPaused(t *testing.T) {
	w := newWorld(t)
	w.hold = true
	r := newReceiver(t, 500)
	w.hook("p", r, true)
	w.start()
	want := w.happen("p", 0, 2)
	<-w.held
	w.idle(func() { w.hook("p", r, false) })
	others := w.bystander()
	want = append(want, w.happen("p", 2, 4)...)
	others()
	if n := r.requests(); n != 1 {
		t.Errorf("%d tries", n)
	}
	w.hook("p", r, true)
	until(t, "all events", func() bool { return len(r.events()) == 4 })
	if got := r.events(); !slices.Equal(got, want) {
		t.Errorf("%v arrived", got)
	}
}

// TestAnotherDestination: a destination that is changed between two attempts gets what the former one
// has not taken, and nothing of its failures counts.
func TestAnotherDestination(t *testing.T) {
	w := newWorld(t)
	w.hold = true
	dead, alive := newReceiver(t, 500), newReceiver(t)
	w.hook("p", dead, true)
	w.start()
	want := w.happen("p", 0, 2)
	<-w.held
	w.hook("p", alive, true)
	until(t, "all events", func() bool { return len(alive.events()) == 2 })
	if got := alive.events(); !slices.Equal(got, want) {
		t.Errorf("%v arrived", got)
	}
	until(t, "the success", func() bool { return w.progress("p").Code == 200 })
}

// TestWithoutWebhook: events of a portal whose log goes nowhere are not kept.
func TestWithoutWebhook(t *testing.T) {
	w := newWorld(t)
	kept := func() (n int) {
		t.Helper()
		err := w.s.View(t.Context(), func(r store.Reader) (err error) {
			n, err = r.Count(cloud.Events, store.Query{Scope: "p"})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	w.happen("p", 0, 3)
	if n := kept(); n != 0 {
		t.Errorf("%d events are kept", n)
	}
	w.hook("p", newReceiver(t), true)
	w.happen("p", 3, 4)
	if n := kept(); n != 1 {
		t.Errorf("with a webhook, %d events of 1 are kept", n)
	}
}
