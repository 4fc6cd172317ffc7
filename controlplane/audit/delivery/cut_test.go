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

	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// stopping is a process that makes three events and delivers them. It prints what it is about to store of the
// delivery, and never does.
func stopping(path string) {
	w := blankWorld(&testing.T{})
	w.open(sqlite(w.t, path, w.time))
	w.natural = true
	w.happen("p", 0, 3) // before the engine looks, so that one request has them all
	w.writer = writer(func(ctx context.Context, class model.Class, fn func(store.Tx) error) (store.Commit, error) {
		return w.gate.Write(ctx, class, func(tx store.Tx) error {
			err := fn(tx)
			if err == nil && wrote(tx, cloud.Deliveries) {
				d, _, _ := progressIn(tx, "p")
				_, _ = fmt.Println("storing", d.Code, d.Cursor)
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
			said := cutOff(t, path, r, answered)
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

// cutOff runs a process until the receiver has taken its request, and kills it before the answer, or when it has the
// answer and is about to store it. It returns what the process has said.
func cutOff(t *testing.T, path string, r *receiver, answered bool) (said []string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childPath+"="+path, childStops+"=1")
	cmd.Stderr = t.Output()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	dead := make(chan struct{})
	kill := sync.OnceFunc(func() { _ = cmd.Process.Kill() }) // that it was is seen below
	serve := r.Config.Handler
	if !answered {
		r.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			answer := httptest.NewRecorder()
			serve.ServeHTTP(answer, req)
			kill()
			<-dead
			w.WriteHeader(answer.Code)
		})
		defer func() { r.Config.Handler = serve }()
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		said = append(said, lines.Text())
		kill()
	}
	err = cmd.Wait()
	close(dead)
	if err == nil || !strings.Contains(err.Error(), "killed") {
		t.Fatalf("the process ended with %v", err)
	}
	return said
}
