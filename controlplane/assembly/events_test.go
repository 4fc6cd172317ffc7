package assembly

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
)

// If more events happen at once than the store remembers, the follower goes on: it looks at
// everything again, and later events arrive.
func TestLostEventsEndNothing(t *testing.T) {
	const commits, each = 180, 100 // 18,000 events, of which 16,384 are kept
	s := memstore.New()
	defer func() { _ = s.Close() }()
	write := func(name string, n int) {
		t.Helper()
		_, err := s.Update(t.Context(), model.Config, func(tx store.Tx) error {
			for i := range n {
				if _, err := tx.Create(&model.Resource{Kind: mesh.Meshes, Name: name + "-" + strconv.Itoa(i), Spec: &mesh.Mesh{}}); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	busy, free := make(chan struct{}), make(chan struct{})
	seen, lost := make(chan string, 1), make(chan uint64, 1)
	first := true
	ended := make(chan error, 1)
	go func() {
		ended <- followStore(ctx, s, func(_ context.Context, e store.Event) {
			if first {
				first = false
				close(busy)
				<-free
			}
			if e.Key.Name == "late-0" {
				seen <- e.Key.Name
			}
		}, func(context.Context) { lost <- s.Revision() })
	}()
	late := time.After(time.Minute)
	for i := 0; ; i++ { // the follower may start after the first event
		write("first"+strconv.Itoa(i), 1)
		select {
		case <-busy:
		case <-late:
			t.Fatal("no event arrives")
		default:
			continue
		}
		break
	}
	for i := range commits {
		write("m"+strconv.Itoa(i), each)
	}
	at := s.Revision()
	close(free)
	select {
	case got := <-lost:
		if got < at {
			t.Errorf("what is looked at again is revision %d of %d", got, at)
		}
	case <-time.After(time.Minute):
		t.Fatal("the loss was not told")
	}
	write("late", 1)
	select {
	case <-seen:
	case <-time.After(time.Minute):
		t.Fatal("nothing arrives after the loss")
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v", err)
	}
}
