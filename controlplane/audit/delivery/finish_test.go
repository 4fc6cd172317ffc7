package delivery

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	"github.com/meshgate/meshgate/controlplane/cloud"
)

// TestUnderWayAtTheEnd: an engine that is to end waits for the answer to what it has sent, and the next one does
// not send it again.
func TestUnderWayAtTheEnd(t *testing.T) {
	w := newWorld(t)
	w.natural = true
	arrived, answer := make(chan struct{}, 10), make(chan struct{})
	var (
		mu  sync.Mutex
		got []string
	)
	slow := &receiver{Server: httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		ids, _ := idsIn(req)
		mu.Lock()
		got = append(got, ids...)
		mu.Unlock()
		arrived <- struct{}{}
		<-answer
	}))}
	t.Cleanup(slow.Close)
	w.hook("p", slow, true)
	stop := w.start()
	want := w.happen("p", 0, 5)
	<-arrived
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		stop()
	}()
	<-w.ctx.Done()
	close(answer)
	<-ended
	first := slices.Clone(got) // those of the window
	if d := w.progress("p"); d.Cursor != cloud.EventName("p", uint64(len(first))) || d.Code != http.StatusOK {
		t.Errorf("of %d events that were taken this is known: %+v", len(first), d)
	}
	w.start()
	until(t, "the rest", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(got) >= len(want) && w.progress("p").Cursor == cloud.EventName("p", 5)
	})
	if !slices.Equal(got, want) {
		t.Errorf("%v arrived", got)
	}
}
