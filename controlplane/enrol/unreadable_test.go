package enrol

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/controlplane/store/storetest"
)

// spoilt runs removals over a store whose rows can be made unreadable.
func spoilt(t *testing.T, f func(w *removing, s *storetest.Unreadable)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &storetest.Unreadable{Store: memstore.New()}
		w := removingOf(t, s)
		for _, name := range []string{"bad", "default"} {
			if _, _, err := w.gate.PutDocument(context.Background(), mesh.Meshes, "", name, &mesh.Mesh{}); err != nil {
				t.Fatal(err)
			}
		}
		f(w, s)
		w.stop()
		_ = s.Close()
	})
}

// TestUnreadableRowStopsNobody: a row that cannot be read at the start affects only itself,
// and is read again when it is written.
func TestUnreadableRowStopsNobody(t *testing.T) {
	t.Run("dataplane", func(t *testing.T) {
		spoilt(t, func(w *removing, s *storetest.Unreadable) {
			w.register("agent", mesh.OwnerAgent)
			w.register("unreadable", mesh.OwnerAgent)
			s.Spoil(mesh.Dataplanes, "default", "unreadable", true)
			w.start()
			time.Sleep(31 * time.Second)
			s.Spoil(mesh.Dataplanes, "default", "unreadable", false)
			w.expect("after 30 s", "unreadable")
			w.Written("default", "unreadable", "")
			time.Sleep(31 * time.Second)
			w.expect("after it was written")
		})
	})
	t.Run("mesh", func(t *testing.T) {
		spoilt(t, func(w *removing, s *storetest.Unreadable) {
			w.register("agent", mesh.OwnerAgent)
			s.Spoil(mesh.Meshes, "", "bad", true)
			w.start()
			time.Sleep(31 * time.Second)
			w.expect("the other mesh after 30 s")
		})
	})
	t.Run("mesh that is written again", func(t *testing.T) {
		spoilt(t, func(w *removing, s *storetest.Unreadable) {
			w.register("agent", mesh.OwnerAgent)
			s.Spoil(mesh.Meshes, "", "default", true)
			w.start()
			time.Sleep(time.Hour)
			w.expect("while its mesh cannot be read", "agent")
			s.Spoil(mesh.Meshes, "", "default", false)
			w.MeshWritten("default")
			time.Sleep(29 * time.Second)
			w.expect("before 30 s", "agent")
			time.Sleep(2 * time.Second)
			w.expect("after 30 s")
		})
	})
}

// TestStoreThatIsAwayAtTheStart: the store is read again, and the failure is logged once.
func TestStoreThatIsAwayAtTheStart(t *testing.T) {
	spoilt(t, func(w *removing, s *storetest.Unreadable) {
		var log strings.Builder
		w.log = slog.New(slog.NewTextHandler(&log, nil))
		w.register("agent", mesh.OwnerAgent)
		s.Away(true)
		w.start()
		time.Sleep(time.Minute)
		s.Away(false)
		time.Sleep(time.Minute)
		w.expect("after the store has been back for a minute")
		if n := strings.Count(log.String(), "level=ERROR"); n != 1 {
			t.Errorf("%d lines in the log: %s", n, log.String())
		}
	})
}

// TestMeshThatIsWrittenDelaysNobody: a Dataplane gets more time only when it is itself
// written.
func TestMeshThatIsWrittenDelaysNobody(t *testing.T) {
	removals(t, func(w *removing) {
		w.put("agent", mesh.OwnerAgent)
		for range 3 {
			time.Sleep(9 * time.Second)
			w.MeshWritten("default")
			synctest.Wait()
		}
		time.Sleep(4 * time.Second)
		w.expect("31 s after it was written")
	})
}

// TestWrittenExtends: an agent that registers just before its predecessor's time is over
// has the full time to open its stream.
func TestWrittenExtends(t *testing.T) {
	removals(t, func(w *removing) {
		w.put("agent", mesh.OwnerAgent)
		time.Sleep(29 * time.Second)
		w.put("agent", mesh.OwnerAgent)
		time.Sleep(29 * time.Second)
		w.expect("29 s after it was written again", "agent")
		time.Sleep(2 * time.Second)
		w.expect("31 s after")
	})
}

// TestRegistrationWhoseEventIsLate: the stored state decides. A Dataplane that was written
// a moment ago is not removed.
func TestRegistrationWhoseEventIsLate(t *testing.T) {
	removals(t, func(w *removing) {
		w.put("agent", mesh.OwnerAgent)
		time.Sleep(29 * time.Second)
		w.register("agent", mesh.OwnerAgent)
		time.Sleep(2 * time.Second)
		w.expect("before its event", "agent")
		w.Written("default", "agent", "")
		time.Sleep(29 * time.Second)
		w.expect("29 s after its event", "agent")
		time.Sleep(2 * time.Second)
		w.expect("31 s after its event")
	})
}
