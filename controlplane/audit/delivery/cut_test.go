package delivery

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// stops are the commits before which a process may stop, and what it says there.
var stops = map[string]func(store.Tx) string{
	"delivery": func(tx store.Tx) string {
		if !wrote(tx, cloud.Deliveries) {
			return ""
		}
		d, _, _ := progressIn(tx, "p")
		return fmt.Sprint(d.Code, " ", d.Cursor)
	},
	// The second batch of a replay job.
	"replay": func(tx store.Tx) string {
		job, _ := specOf[cloud.Replay](tx, cloud.Replays, "p")
		if job == nil || cloud.EventNumber(job.Cursor) <= maxBatch {
			return ""
		}
		return fmt.Sprint(job.Status, " ", job.Cursor)
	},
	// The second page of events that have ended.
	"tidying": func(tx store.Tx) string {
		position, _ := positionIn(tx, "p")
		if position == nil || position.Spec.(*cloud.Position).First <= tidied+1 {
			return ""
		}
		return fmt.Sprint(len(tx.Changes()) > tidied, " ", position.Spec.(*cloud.Position).First)
	},
}

// later is how much later a process begins that tidies up.
const later = cloud.KeptEvents + time.Hour

// stopping is a process that delivers, replays or tidies up. Before the commit it prints what it is about to store,
// and never does.
func stopping(path, where string) {
	w := blankWorld(&testing.T{})
	if where == "tidying" {
		w.pass(later)
	}
	w.open(sqlite(w.t, path, w.time))
	w.natural = true
	if where == "delivery" {
		w.happen("p", 0, 3) // before the engine looks, so that one request has them all
	}
	w.writer = writer(func(ctx context.Context, class model.Class, fn func(store.Tx) error) (store.Commit, error) {
		return w.gate.Write(ctx, class, func(tx store.Tx) error {
			err := fn(tx)
			if text := stops[where](tx); err == nil && text != "" {
				_, _ = fmt.Println("storing", text)
				select {}
			}
			return err
		})
	})
	w.start()
	select {}
}

// TestKillAfterTheReceiverHasTaken: a process that is killed when the receiver has taken a request, and it is not
// stored that it has, before or after the answer, sends nothing twice but that request, and loses nothing.
func TestKillAfterTheReceiverHasTaken(t *testing.T) {
	for name, answered := range map[string]bool{"before the answer": false, "after the answer": true} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "meshgate.db")
			w := blankWorld(t)
			w.open(sqlite(t, path, w.time))
			r := newReceiver(t)
			w.hook("p", r, true)
			_ = w.s.Close()
			said := cutOff(t, path, "delivery", r, answered)
			taken := []string{"p-0", "p-1", "p-2"}
			if got := r.events(); !slices.Equal(got, taken) {
				t.Fatalf("before the cut %v arrived", got)
			}
			want := []string(nil)
			if answered {
				want = []string{"storing 200 " + cloud.EventName("p", 3)}
			}
			if !slices.Equal(said, want) {
				t.Fatalf("it was killed elsewhere: it said %q, want %q", said, want)
			}
			w = blankWorld(t)
			w.open(sqlite(t, path, w.time))
			if d := w.progress("p"); d.Cursor != cloud.EventName("p", 0) || d.AttemptedAt != 0 {
				t.Fatalf("it was killed too late: %+v is stored", d)
			}
			w.start()
			all := slices.Concat(taken, taken, w.happen("p", 3, 5))
			until(t, "all events", func() bool { return w.progress("p").Cursor == cloud.EventName("p", 5) })
			if got := r.events(); !slices.Equal(got, all) {
				t.Errorf("%v arrived, want %v", got, all)
			}
		})
	}
}

// reopen begins with a store as another process does.
func reopen(t *testing.T, path string, ahead time.Duration) *world {
	w := blankWorld(t)
	w.pass(ahead)
	w.open(sqlite(t, path, w.time))
	return w
}

// TestKillDuringAReplay: the process that comes after one that was killed goes on with its replay job, and sends
// nothing more often than that asks for but what was under way.
func TestKillDuringAReplay(t *testing.T) {
	path := filepath.Join(t.TempDir(), "meshgate.db")
	w := reopen(t, path, 0)
	r := newReceiver(t)
	w.hook("p", r, true)
	all := w.happen("p", 0, 2*maxBatch+50)
	stop := w.start()
	until(t, "all events", func() bool { return w.progress("p").Cursor == cloud.EventName("p", uint64(len(all))) })
	stop()
	w.again("p", w.time().Add(-time.Hour), w.time().Add(time.Hour))
	_ = w.s.Close()
	said := cutOff(t, path, "replay", r, true)
	if want := []string{"storing running " + cloud.EventName("p", 2*maxBatch)}; !slices.Equal(said, want) {
		t.Fatalf("it was killed elsewhere: it said %q, want %q", said, want)
	}
	w = reopen(t, path, 0)
	if job := w.job("p"); job.Status != cloud.ReplayRunning || job.Cursor != cloud.EventName("p", maxBatch) {
		t.Fatalf("the job is at %+v", job)
	}
	w.start()
	until(t, "the end of the job", w.ended("p"))
	if job := w.job("p"); job.Status != cloud.ReplayCompleted {
		t.Errorf("the job is %+v", job)
	}
	if got, want := r.events(), slices.Concat(all, all[:2*maxBatch], all[maxBatch:]); !slices.Equal(got, want) {
		t.Errorf("%d events arrived, want %d: %v", len(got), len(want), got)
	}
}

// TestKillDuringTidying: the process that comes after one that was killed removes the rest of what has ended, and
// sends nothing twice.
func TestKillDuringTidying(t *testing.T) {
	path := filepath.Join(t.TempDir(), "meshgate.db")
	w := reopen(t, path, 0)
	r := newReceiver(t)
	w.hook("p", r, true)
	want := w.happen("p", 0, 3*tidied)
	stop := w.start()
	until(t, "all events", func() bool { return w.progress("p").Cursor == cloud.EventName("p", 3*tidied) })
	stop()
	_ = w.s.Close()
	said := cutOff(t, path, "tidying", r, true)
	if first := fmt.Sprint("storing true ", 2*tidied+1); !slices.Equal(said, []string{first}) {
		t.Fatalf("it was killed elsewhere: it said %q, want %q", said, first)
	}
	w = reopen(t, path, later)
	if n := len(w.kept("p")); n != 2*tidied {
		t.Fatalf("%d events are kept", n)
	}
	w.start()
	want = append(want, w.happen("p", 3*tidied, 3*tidied+2)...)
	until(t, "all events", func() bool { return w.progress("p").Cursor == cloud.EventName("p", 3*tidied+2) })
	until(t, "the end of what has ended", func() bool { return len(w.kept("p")) == 2 })
	if got := r.events(); !slices.Equal(got, want) {
		t.Errorf("%d events arrived, want %d", len(got), len(want))
	}
	if s := w.engine.Stats(); s.Expired+s.Crowded != 0 {
		t.Errorf("events are counted as lost: %+v", s)
	}
}

// cutOff runs a process until the receiver has taken its request, and kills it before the answer, or when it has the
// answer and is about to store it. It returns what the process has said. While it lives, nobody else delivers, because
// nobody else gets the store.
func cutOff(t *testing.T, path, where string, r *receiver, answered bool) (said []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience) // it may never come there
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), childPath+"="+path, childStops+"="+where)
	cmd.Stderr = t.Output()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	begun, dead := make(chan struct{}), make(chan struct{})
	kill := sync.OnceFunc(func() { _ = cmd.Process.Kill() }) // that it was is seen below
	if !answered {
		r.answering(func(w http.ResponseWriter, req *http.Request) {
			answer := httptest.NewRecorder()
			r.serve(answer, req)
			<-begun
			kill()
			<-dead
			w.WriteHeader(answer.Code)
		})
		defer r.answering(nil)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	close(begun)
	for lines := bufio.NewScanner(out); lines.Scan(); {
		said = append(said, lines.Text())
		if _, err := tryStore(path, time.Now); err == nil || !strings.Contains(err.Error(), "another process uses it") {
			t.Errorf("while it lives another process has the store: %v", err)
		}
		kill()
	}
	err = cmd.Wait()
	close(dead)
	if err == nil || !strings.Contains(err.Error(), "killed") {
		t.Fatalf("the process ended with %v", err)
	}
	return said
}
