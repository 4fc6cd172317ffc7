package trail

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/admit/admittest"
	"github.com/meshgate/meshgate/controlplane/audit"
	"github.com/meshgate/meshgate/controlplane/audit/delivery"
	"github.com/meshgate/meshgate/controlplane/changes"
	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/cloud/cloudtest"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
)

// world is a gate whose changes are in the audit log, if that is on.
type world struct {
	t     *testing.T
	s     store.Store
	gate  *admit.Gate
	trail *Trail

	mu  sync.Mutex
	now time.Time
	// minute lets a minute pass for who sums up.
	minute chan struct{}
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, now: time.Unix(1_750_000_000, 0), minute: make(chan struct{})}
	w.s = memstore.Open(memstore.Options{Now: w.time})
	t.Cleanup(func() { _ = w.s.Close() })
	w.gate = admit.New(w.s, &admittest.Revoker{}, cloud.Kinds(), w.time)
	w.trail = New(Options{Store: w.s, Log: slog.New(slog.DiscardHandler), Now: w.time, Organization: "org", Rest: w.rest})
	w.gate.Report(w.trail.Changed)
	w.trail.Writer = w.gate.As(model.System("audit"))
	return w
}

func (w *world) time() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func (w *world) pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

func (w *world) rest(ctx context.Context, d time.Duration) error {
	if d < summing {
		return ctx.Err()
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-w.minute:
		return nil
	}
}

// ann is a context of a request by an administrator.
func ann(t *testing.T) context.Context { return model.WithActor(t.Context(), model.User("ann")) }

// write writes as an actor.
func (w *world) write(ctx context.Context, fn func(store.Tx) error) {
	w.t.Helper()
	if _, err := w.gate.Write(ctx, model.Config, fn); err != nil {
		w.t.Fatal(err)
	}
}

// destination writes a destination, with a secret, in a transaction.
func destination(name, secret string) func(store.Tx) error {
	return func(tx store.Tx) error {
		res := &model.Resource{Kind: cloud.Destinations, Name: name, Spec: &cloud.Destination{Name: name, Endpoint: "https://siem.example/", Authorization: secret, LogFormat: cloud.FormatJSON}}
		if _, err := tx.Get(cloud.Destinations, "", name); err == nil {
			_, err = tx.Update(res, 0)
			return err
		}
		_, err := tx.Create(res)
		return err
	}
}

// turn switches the log on or off.
func (w *world) turn(on bool) {
	w.t.Helper()
	w.write(ann(w.t), func(tx store.Tx) error {
		return delivery.Lead(tx, cloud.ControlPlaneLog, cloud.Webhook{Enabled: on, Destination: "siem"})
	})
}

// events are those that are stored.
func (w *world) events() []audit.Event {
	w.t.Helper()
	return cloudtest.Events(w.t, w.s, cloud.ControlPlaneLog)
}

// said is an event in a line.
func said(e *audit.Event) string {
	a := e.Administration
	return fmt.Sprintf("%s %s %s %s %s %s -%s +%s", a.Class, a.Actor, a.Action, a.Kind, a.Name, a.Members, a.Before, a.After)
}

func (w *world) expect(from int, want ...string) {
	w.t.Helper()
	var got []string
	for _, e := range w.events()[from:] {
		if got = append(got, said(&e)); e.Organization != "org" || e.ID == "" || e.Time.IsZero() {
			w.t.Errorf("%+v", e)
		}
	}
	if !slices.Equal(got, want) {
		w.t.Errorf("the events are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// rows are how many rows of the delivery's own kinds there are.
func (w *world) rows() (n int) {
	w.t.Helper()
	err := w.s.View(context.Background(), func(r store.Reader) error {
		for _, k := range []*model.Kind{cloud.Events, cloud.Positions, cloud.Deliveries} {
			list, err := store.ListAll(r, k, store.Query{Scope: ""})
			if err != nil {
				return err
			}
			n += len(list)
		}
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return n + len(w.events())
}

// TestOff: without a webhook, and while it is off, nothing is stored, whatever happens.
func TestOff(t *testing.T) {
	w := newWorld(t)
	stop := w.run()
	w.write(ann(t), destination("siem", "s3cret"))
	w.refuse("192.0.2.1:1", 401)
	w.turn(false)
	w.write(ann(t), destination("b", "s3cret"))
	w.refuse("192.0.2.1:1", 403)
	w.minute <- struct{}{}
	stop()
	if n := w.rows(); n != 0 {
		t.Errorf("%d rows, %+v", n, w.events())
	}
}

const (
	masked = `{"authorization":"CONCEALED+++","endpoint":"https://siem.example/","log_format":"json","name":"b","skip_ssl_verification":false}`
	all    = `["/authorization","/endpoint","/log_format","/name","/skip_ssl_verification"]`
)

// TestChanges: each change that somebody makes is one event, without secrets; what fails, what is only
// tried, and what proxies and the control plane itself write is none.
func TestChanges(t *testing.T) {
	w := newWorld(t)
	w.write(ann(t), destination("siem", "s3cret"))
	w.turn(true)
	w.expect(0, `CHANGE user:ann created audit_log_webhook control-plane ["/audit_log_destination_id","/enabled"] - +{"audit_log_destination_id":"siem","enabled":true}`)
	w.write(ann(t), destination("b", "s3cret"))
	w.write(ann(t), destination("b", "an0ther"))
	w.write(ann(t), func(tx store.Tx) error { return tx.Delete(cloud.Destinations, "", "b", 0) })
	w.expect(1,
		"CHANGE user:ann created audit_log_destination b "+all+" - +"+masked,
		`CHANGE user:ann updated audit_log_destination b ["/authorization"] -`+masked+" +"+masked,
		"CHANGE user:ann deleted audit_log_destination b "+all+" -"+masked+" +")
	broken := errors.New("broken")
	if _, err := w.gate.Write(ann(t), model.Config, func(tx store.Tx) error { return errors.Join(destination("c", "s3cret")(tx), broken) }); !errors.Is(err, broken) {
		t.Error(err)
	}
	w.write(admit.Rehearse(ann(t), &admit.Rehearsal{After: func(store.Tx, model.Key) error { return nil }}), destination("c", "s3cret"))
	w.write(model.WithActor(t.Context(), model.System("rotation")), destination("d", "s3cret"))
	w.write(model.WithActor(t.Context(), model.Node("mesh.web")), destination("d", "s3cret"))
	w.expect(4)
	w.write(model.WithOrigin(model.WithActor(t.Context(), model.System("declarative")), model.OriginFile), destination("d", "s3cret"))
	w.write(ann(t), func(tx store.Tx) error {
		return errors.Join(destination("e", "s3cret")(tx), tx.Delete(cloud.Destinations, "", "d", 0))
	})
	if got := w.events()[4:]; len(got) != 3 || got[0].Administration.Actor != "system:declarative" || got[1].Administration.Name != "e" || got[2].Administration.Name != "d" {
		t.Errorf("%+v", got)
	}
}

// TestUndone: an event that cannot be stored undoes the change that it tells of.
func TestUndone(t *testing.T) {
	w := newWorld(t)
	w.write(ann(t), destination("siem", "s3cret"))
	w.turn(true)
	full := errors.New("full")
	w.gate.Report(func(context.Context, store.Tx, []changes.Entry) error { return full })
	if _, err := w.gate.Write(ann(t), model.Config, destination("b", "s3cret")); !errors.Is(err, full) {
		t.Error(err)
	}
	if err := w.s.View(t.Context(), func(r store.Reader) error { _, err := r.Get(cloud.Destinations, "", "b"); return err }); err == nil || len(w.events()) != 1 {
		t.Errorf("%v, %d events", err, len(w.events()))
	}
}

// TestLastEvent: that the log is switched off is its last event, which is delivered although it is off.
func TestLastEvent(t *testing.T) {
	w := newWorld(t)
	w.write(ann(t), destination("siem", "s3cret"))
	w.turn(true)
	w.turn(false)
	w.write(ann(t), destination("b", "s3cret"))
	w.turn(false)
	w.expect(1, `CHANGE user:ann updated audit_log_webhook control-plane ["/enabled"] -{"audit_log_destination_id":"siem","enabled":true} +{"audit_log_destination_id":"siem","enabled":false}`)
	if err := w.s.View(t.Context(), func(r store.Reader) error {
		res, err := r.Get(cloud.Deliveries, "", cloud.ControlPlaneLog)
		if err == nil && res.Spec.(*cloud.Delivery).Final != cloud.EventName(cloud.ControlPlaneLog, 2) {
			err = fmt.Errorf("%+v", res.Spec)
		}
		return err
	}); err != nil {
		t.Error(err)
	}
	w.turn(true)
	if n := len(w.events()); n != 3 {
		t.Errorf("%d events", n)
	}
}

// run runs the trail; the returned function ends it, with everything stored.
func (w *world) run() (stop func()) { return w.runIn(context.WithCancel(context.Background())) }

// runIn is run in a context that can be ended.
func (w *world) runIn(ctx context.Context, cancel context.CancelFunc) (stop func()) {
	done := make(chan error)
	go func() { done <- w.trail.Run(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				w.t.Error(err)
			}
		})
	}
	w.t.Cleanup(stop)
	return stop
}

// refuse makes a call from an address that is refused.
func (w *world) refuse(from string, status int) {
	h := httpkit.Observe(httpkit.Administered("mesh", w.trail.Refused, httpkit.Named("/meshes/{mesh}", http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		httpkit.As(r, model.User("mallory"))
		rw.WriteHeader(status)
	}))), slog.New(slog.DiscardHandler))
	r := httptest.NewRequest(http.MethodPut, "/meshes/t0ken", nil)
	r.RemoteAddr = from
	r.Header.Set("User-Agent", "evil")
	h.ServeHTTP(httptest.NewRecorder(), r)
}

// TestIssuerAway: a call that is refused because the issuer of its token is away is an event, with its reason and
// within the bounds of others.
func TestIssuerAway(t *testing.T) {
	w := newWorld(t)
	w.write(ann(t), destination("siem", "s3cret"))
	w.turn(true)
	stop := w.run()
	const calls = burstEach + 5
	for range calls {
		e := &httpkit.Entry{Code: "unavailable", IssuerAway: true, Call: httpkit.Call{API: "mesh", Source: netip.MustParseAddr("192.0.2.1")}}
		w.trail.Refused(httpkit.Refusal{Entry: e, Status: http.StatusServiceUnavailable})
	}
	w.minute <- struct{}{}
	stop()
	reasons := map[string]int{}
	for _, e := range w.events()[1:] {
		if e.Administration.Status != http.StatusServiceUnavailable {
			t.Errorf("%+v", e.Administration)
		}
		reasons[e.Administration.Reason] += e.Administration.Count
	}
	if reasons["issuer_unreachable"] != burstEach || reasons[reasonSummed] != calls-burstEach {
		t.Errorf("%v", reasons)
	}
}

// TestRefusals: each refused call is an event, by who made it from where.
func TestRefusals(t *testing.T) {
	w := newWorld(t)
	w.write(ann(t), destination("siem", "s3cret"))
	w.turn(true)
	stop := w.run()
	for i, status := range []int{200, 404, 401, 400, 403, 500} {
		w.refuse(fmt.Sprintf("192.0.2.%d:1", i), status)
	}
	stop()
	var got []string
	for _, e := range w.events()[1:] {
		a := e.Administration
		got = append(got, fmt.Sprintf("%s %s %s %d %d %s %s %s", a.Class, a.Actor, a.API, a.Status, a.Count, e.Source, e.Request, e.UserAgent))
		if e.Trace == "" || e.ID == "" || !e.Time.Equal(w.time()) {
			t.Errorf("%+v", e)
		}
	}
	want := []string{"REFUSAL user:mallory mesh 401 1 192.0.2.2 PUT /meshes/{mesh} evil", "REFUSAL user:mallory mesh 403 1 192.0.2.4 PUT /meshes/{mesh} evil"}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// TestFlood: whoever floods gets few events, from one address or from many, and those say how many calls
// there were. What happens meanwhile is not lost, and others are still told one by one while one floods.
func TestFlood(t *testing.T) {
	for name, from := range map[string]func(i int) string{
		"one":  func(int) string { return "192.0.2.1:1" },
		"many": func(i int) string { return fmt.Sprintf("[2001:db8:%x:%x::1]:1", i>>16, i&0xffff) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.write(ann(t), destination("siem", "s3cret"))
			w.turn(true)
			stop := w.run()
			const minutes, each = 3, 600
			for m := range minutes {
				for i := range each {
					w.refuse(from(m*each+i), 401+2*(i%2))
				}
				w.write(ann(t), destination("b", fmt.Sprint(m)))
				if w.pass(summing); name == "one" {
					w.refuse("198.51.100.7:1", 403)
				}
				w.minute <- struct{}{}
			}
			stop()
			calls, refusals, changed, others := 0, 0, 0, 0
			for _, e := range w.events() {
				switch a := e.Administration; {
				case a.Class == audit.Change:
					changed++
				case e.Source.String() == "198.51.100.7" && a.Count == 1:
					others++
				default:
					calls, refusals = calls+a.Count, refusals+1
				}
			}
			most := burstTotal + minutes*int(summing/rateTotal) + (minutes+1)*(maxSums+2)
			if name == "one" {
				most = burstEach + minutes*int(summing/rateEach) + 2*(minutes+1)
				if others != minutes {
					t.Errorf("%d calls of another address", others)
				}
			}
			if calls != minutes*each || refusals > most || changed != minutes+1 {
				t.Errorf("%d calls in %d events of at most %d, and %d changes", calls, refusals, most, changed)
			}
		})
	}
}

// TestRates: at their most, refusals leave room for other events for as long as events are kept.
func TestRates(t *testing.T) {
	kept := int(cloud.KeptEvents/rateTotal) + burstTotal + int(cloud.KeptEvents/summing)*(maxSums+2)
	if kept > cloud.MaxEvents/3 {
		t.Errorf("%d of %d", kept, cloud.MaxEvents)
	}
}

// TestStoreAway: while nothing can be stored, refusals wait, in bounded memory, and answers do not.
func TestStoreAway(t *testing.T) {
	w := newWorld(t)
	w.write(ann(t), destination("siem", "s3cret"))
	w.turn(true)
	inner, away := w.trail.Writer, errors.New("away")
	var mu sync.Mutex
	gone := true
	w.trail.Writer = writer(func(ctx context.Context, class model.Class, fn func(store.Tx) error) (store.Commit, error) {
		mu.Lock()
		defer mu.Unlock()
		if gone {
			return store.Commit{}, away
		}
		return inner.Write(ctx, class, fn)
	})
	stop := w.run()
	for i := range 5000 {
		w.refuse(fmt.Sprintf("10.%d.%d.1:1", i/256, i%256), 401)
	}
	for range 100 {
		w.minute <- struct{}{}
	}
	w.trail.mu.Lock()
	if n := len(w.trail.waiting); n > 2*maxWaiting {
		t.Errorf("%d wait", n)
	}
	w.trail.mu.Unlock()
	mu.Lock()
	gone = false
	mu.Unlock()
	w.minute <- struct{}{}
	w.minute <- struct{}{} // the former is done with
	stop()
	calls := 0
	for _, e := range w.events()[1:] {
		calls += e.Administration.Count
	}
	if calls != 5000 {
		t.Errorf("%d calls", calls)
	}
}

// TestEnd: at the end everything is stored that was only counted, however much waits, if the store can write
// again, and otherwise the log says how many calls are lost.
func TestEnd(t *testing.T) {
	for name, back := range map[string]bool{"back": true, "away": false} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.write(ann(t), destination("siem", "s3cret"))
			w.turn(true)
			ctx, cancel := context.WithCancel(context.Background())
			inner := w.trail.Writer
			w.trail.Writer = writer(func(c context.Context, class model.Class, fn func(store.Tx) error) (store.Commit, error) {
				if !back || ctx.Err() == nil {
					return store.Commit{}, errors.New("away")
				}
				return inner.Write(c, class, fn)
			})
			var log bytes.Buffer
			w.trail.Log = slog.New(slog.NewTextHandler(&log, nil))
			stop := w.runIn(ctx, cancel)
			for i := range 5000 {
				w.refuse(fmt.Sprintf("10.%d.%d.1:1", i/256, i%256), 401)
			}
			stop()
			calls, want := 0, 0
			for _, e := range w.events()[1:] {
				calls += e.Administration.Count
			}
			if back {
				want = 5000
			}
			if said := strings.Contains(log.String(), "are lost"); calls != want || said == back {
				t.Errorf("%d calls, want %d; the log is\n%s", calls, want, log.String())
			}
			if !back && !strings.Contains(log.String(), "calls=5000 error=away") {
				t.Errorf("the log is\n%s", log.String())
			}
		})
	}
}

type writer func(context.Context, model.Class, func(store.Tx) error) (store.Commit, error)

func (w writer) Write(ctx context.Context, class model.Class, fn func(store.Tx) error) (store.Commit, error) {
	return w(ctx, class, fn)
}
