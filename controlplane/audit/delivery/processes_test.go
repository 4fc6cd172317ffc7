package delivery

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/meshgate/meshgate/controlplane/audit"
	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/lease"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/xds/alarm"
)

// childPath names the database of a re-executed test binary, which makes events and delivers them until it
// is killed, and childEvents from which number on.
const (
	childPath   = "DELIVERY_TEST_CHILD"
	childEvents = "DELIVERY_TEST_EVENTS"
	// childStops, if set, has it stop before a commit: one of [stops].
	childStops = "DELIVERY_TEST_STOPS"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(childPath); path != "" {
		if where := os.Getenv(childStops); where != "" {
			stopping(path, where)
		}
		os.Exit(child(path))
	}
	goleak.VerifyTestMain(m)
}

// child makes events of the portal p, four at a time, prints the number of each that is stored, and
// delivers them.
func child(path string) int {
	first, _ := strconv.Atoi(os.Getenv(childEvents))
	w := blankWorld(&testing.T{})
	w.open(sqlite(w.t, path, w.time))
	w.natural = true
	w.start()
	for n := first; ; n++ {
		_, err := w.gate.Write(context.Background(), model.Config, func(tx store.Tx) error {
			return Put(tx, audit.Event{ID: fmt.Sprintf("p-%d", n), Portal: "p", Outcome: audit.Success, Method: audit.Basic})
		})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 2
		}
		_, _ = fmt.Println(n)
	}
}

// TestKill: however often the process is killed, each event that was stored arrives, in order, and none
// twice but those of the batch that was under way.
func TestKill(t *testing.T) {
	path := filepath.Join(t.TempDir(), "meshgate.db")
	w := blankWorld(t)
	w.open(sqlite(t, path, w.time))
	r := newReceiver(t)
	w.hook("p", r, true)
	_ = w.s.Close()
	const kills = 6
	stored, repeated := 0, 0
	random := rand.New(rand.NewPCG(1, 2))
	for range kills {
		before := len(r.events())
		stored = kill(t, path, stored, 30+random.IntN(300))
		repeated += overlap(t, r.events(), before)
	}
	w = blankWorld(t)
	w.open(sqlite(t, path, w.time))
	w.start()
	last := fmt.Sprintf("p-%d", stored-1)
	until(t, "all events", func() bool { return slices.Contains(r.events(), last) })
	got, next := r.events(), 0
	for _, id := range got {
		n, _ := strconv.Atoi(strings.TrimPrefix(id, "p-"))
		if n > next {
			t.Fatalf("%d came where %d was due", n, next)
		}
		next = max(next, n+1)
	}
	if next < stored {
		t.Errorf("%d of %d arrived", next, stored)
	}
	if twice := len(got) - next; twice > kills*maxBatch {
		t.Errorf("%d arrived twice", twice)
	}
}

// overlap checks that what arrived of one process goes back behind what had arrived before at most once,
// at its beginning, and by no more than a batch.
func overlap(t *testing.T, got []string, before int) (repeated int) {
	t.Helper()
	number := func(i int) int {
		n, _ := strconv.Atoi(strings.TrimPrefix(got[i], "p-"))
		return n
	}
	for i := 1; i < len(got); i++ {
		back := number(i-1) + 1 - number(i)
		if i > before && back != 0 || back < 0 || back > maxBatch {
			t.Fatalf("%s came after %s, the %dth of one process", got[i], got[i-1], i-before)
		}
		repeated += back
	}
	return repeated
}

// kill runs a child that makes events from a number on, and kills it after so many. It returns the number
// of the next one.
func kill(t *testing.T, path string, first, after int) int {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childPath+"="+path, childEvents+"="+strconv.Itoa(first))
	cmd.Stderr = t.Output()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	next := first
	for lines := bufio.NewScanner(out); lines.Scan(); {
		n, err := strconv.Atoi(lines.Text())
		if err != nil {
			t.Fatal(err)
		}
		if next = n + 1; next == first+after {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := cmd.Wait(); err == nil || !strings.Contains(err.Error(), "killed") || next < first+after {
		t.Fatalf("the child ended with %v after %d events", err, next-first)
	}
	// One more may be stored that nobody was told of: it has the number that comes next.
	w := blankWorld(t)
	w.open(sqlite(t, path, w.time))
	defer func() { _ = w.s.Close() }()
	return len(w.kept("p"))
}

// TestTwoEngines: of two engines on one store, one delivers; when it can write no more and gives nothing back,
// the other goes on after the span of a lease, and nothing arrives twice. They are in one process, on the memory
// store and without Sole, which the product never has: this is about leases alone, on which a store would rely
// that several processes write at once. That two processes with one file of sqlite never deliver at the same
// time, and that one goes on where the other was killed, is proved by e2e/cloud/standby_test.go.
func TestTwoEngines(t *testing.T) {
	r := newReceiver(t) // outside, so that time goes on while nobody waits for it only: no lease ends because the machine is busy
	r.Config.SetKeepAlivesEnabled(false)
	synctest.Test(t, func(t *testing.T) { twoEngines(t, r) })
}

func twoEngines(t *testing.T, r *receiver) {
	w := newWorld(t)
	w.sole, w.span = false, 5*time.Second
	w.hook("p", r, true)
	first := w.start()
	want := w.happen("p", 0, 50)
	until(t, "the first", func() bool { return slices.Equal(r.events(), want) })
	mute := w.mute // the first one cannot write any more, and so not give anything back
	w.mute = nil
	w.start()
	want = append(want, w.happen("p", 50, 300)...)
	until(t, "what both know", func() bool { return w.progress("p").Cursor == cloud.EventName("p", 300) })
	mute.Store(true)
	first()
	want = append(want, w.happen("p", 300, 400)...)
	until(t, "the rest", func() bool { return len(r.events()) >= len(want) })
	if got := r.events(); !slices.Equal(got, want) {
		t.Errorf("%d arrived: %v", len(got), got)
	}
	held := false
	_ = w.s.View(t.Context(), func(r store.Reader) error {
		res, err := r.Get(lease.Leases, "", "audit-log-webhook/p")
		held = err == nil && res.Version > 1
		return nil
	})
	if !held {
		t.Error("nobody has a lease")
	}
}

// natural waits as engines do.
func natural(ctx context.Context, d time.Duration) error { return alarm.Rest(ctx, d) }

// TestFencedOff: what a worker finds out after another process has taken its lease is not stored.
func TestFencedOff(t *testing.T) {
	w := newWorld(t)
	w.hook("p", newReceiver(t), true)
	w.happen("p", 0, 3)
	w.start()() // an engine that has ended
	before := w.progress("p")
	late := &worker{Engine: w.engine, portal: "p"}
	if _, err := late.held(t.Context()); err != nil {
		t.Fatal(err)
	}
	job := &work{hook: cloud.Webhook{Enabled: true}}
	other, err := lease.New(lease.Options{Writer: w.gate, Holder: "another", Sole: true}).Take(t.Context(), "audit-log-webhook/p")
	if err != nil {
		t.Fatal(err)
	}
	err = late.write(t.Context(), &conclusion{job: job, cursor: cloud.EventName("p", 99), tried: true, ended: true})
	if !errors.Is(err, lease.ErrLost) || w.progress("p") != before {
		t.Errorf("%v, %+v", err, w.progress("p"))
	}
	late.leave(t.Context())
	other.Release(t.Context())
}
