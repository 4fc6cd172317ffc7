package delivery

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/admit/admittest"
	"github.com/meshgate/meshgate/controlplane/audit"
	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/outward"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
)

// receiver is a SIEM that answers as it is told, and notes what it has taken.
type receiver struct {
	*httptest.Server
	mu      sync.Mutex
	answers []int // of the next requests; 200 after them
	taken   []string
	tries   int
	seen    chan struct{}
}

func newReceiver(t *testing.T, answers ...int) *receiver {
	r := &receiver{answers: answers, seen: make(chan struct{}, 1000)}
	r.Server = httptest.NewServer(http.HandlerFunc(r.serve))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) serve(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	status := http.StatusOK
	if len(r.answers) > 0 {
		status, r.answers = r.answers[0], r.answers[1:]
	}
	r.tries++
	if status == http.StatusOK {
		for lines := bufio.NewScanner(req.Body); lines.Scan(); {
			var e struct {
				ID string `json:"event_id"`
			}
			if json.Unmarshal(lines.Bytes(), &e) != nil || req.Header.Get("Authorization") != "Basic c2VjcmV0" {
				status = http.StatusUnauthorized
			}
			r.taken = append(r.taken, e.ID)
		}
	}
	w.WriteHeader(status)
	r.seen <- struct{}{}
}

func (r *receiver) events() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.taken)
}

// world is an engine over a store in memory. Waits between attempts take no time, those of [probe]
// last until something happens.
type world struct {
	t    *testing.T
	s    store.Store
	gate *admit.Gate

	mu    sync.Mutex
	now   time.Time
	waits []time.Duration
	// hold, if set, makes waits between attempts last until something happens, too.
	hold bool
	held chan struct{}
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, now: time.Now(), held: make(chan struct{}, 1000)}
	w.s = memstore.Open(memstore.Options{Now: w.time})
	t.Cleanup(func() { _ = w.s.Close() })
	w.gate = admit.New(w.s, &admittest.Revoker{}, cloud.Kinds(), w.time).As(model.System("audit"))
	return w
}

func (w *world) time() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func (w *world) rest(ctx context.Context, d time.Duration) error {
	if d == Window {
		return ctx.Err()
	}
	w.mu.Lock()
	w.waits = append(w.waits, d)
	hold := w.hold || d >= probe
	if !hold {
		w.now = w.now.Add(d)
	}
	w.mu.Unlock()
	if hold {
		w.held <- struct{}{}
		<-ctx.Done()
	}
	return ctx.Err()
}

// start runs an engine; the returned function ends it.
func (w *world) start() (stop func()) {
	w.t.Helper()
	signer, err := audit.NewSigner(make([]byte, 32))
	if err != nil {
		w.t.Fatal(err)
	}
	client := outward.New(outward.Options{Allowed: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	e := New(Options{
		Store: w.s, Writer: w.gate, Signer: signer, Verifying: client, Trusting: client, Log: slog.New(slog.DiscardHandler), Now: w.time, Rest: w.rest,
	})
	ctx, cancel := context.WithCancel(context.Background())
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
	return stop
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
		p, err := progressOf(r, portal)
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

// until waits for a condition.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !holds(); time.Sleep(time.Millisecond) {
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

// TestAfterAnOutage: after all attempts have failed nothing is lost: the next event brings those before
// it along.
func TestAfterAnOutage(t *testing.T) {
	w := newWorld(t)
	r := newReceiver(t, 500, 500, 500, 500, 500)
	w.hook("p", r, true)
	w.start()
	want := w.happen("p", 0, 3)
	<-w.held // until something new happens, or for a long time
	w.mu.Lock()
	waits := slices.Clone(w.waits)
	w.mu.Unlock()
	if !slices.Equal(waits, []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, probe}) {
		t.Errorf("the waits are %v", waits)
	}
	if d := w.progress("p"); !d.Failed || d.Code != http.StatusInternalServerError || d.Cursor != "" {
		t.Errorf("%+v", d)
	}
	want = append(want, w.happen("p", 3, 4)...)
	until(t, "all events", func() bool { return len(r.events()) == 4 })
	if got := r.events(); !slices.Equal(got, want) {
		t.Errorf("%v arrived", got)
	}
	until(t, "active", func() bool { return !w.progress("p").Failed })
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
	w.hook("p", r, false)
	want = append(want, w.happen("p", 2, 4)...)
	other := newReceiver(t)
	w.hook("q", other, true) // whatever the engine does after the pause, it has done when this has arrived
	w.happen("q", 0, 1)
	until(t, "the other portal", func() bool { return len(other.events()) == 1 })
	if r.mu.Lock(); r.tries != 1 {
		t.Errorf("%d tries", r.tries)
	}
	r.mu.Unlock()
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

// TestUnwanted: what the receiver refuses for what it is does not hold up the next; what it refuses for
// who sends it stays.
func TestUnwanted(t *testing.T) {
	w := newWorld(t)
	r := newReceiver(t, 400, 401)
	w.hook("p", r, true)
	w.start()
	w.happen("p", 0, 1)
	until(t, "the refusal", func() bool { return w.progress("p").Failed })
	w.happen("p", 1, 2)
	<-w.held
	if d := w.progress("p"); d.Code != http.StatusUnauthorized || !d.Failed || d.Cursor != cloud.EventName("p", 1) {
		t.Errorf("%+v", d)
	}
	w.happen("p", 2, 3)
	until(t, "the rest", func() bool { return len(r.events()) == 2 })
	if got := r.events(); !slices.Equal(got, []string{"p-1", "p-2"}) {
		t.Errorf("%v arrived", got)
	}
}

// TestWithoutWebhook: events of a portal whose log goes nowhere are not kept.
func TestWithoutWebhook(t *testing.T) {
	w := newWorld(t)
	w.happen("p", 0, 3)
	_ = w.s.View(t.Context(), func(r store.Reader) error {
		if n, err := r.Count(cloud.Events, store.Query{}); n != 0 || err != nil {
			t.Errorf("%d events, %v", n, err)
		}
		return nil
	})
}
