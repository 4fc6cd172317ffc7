package insight_test

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/meshgate/meshgate/controlplane/insight"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/xds/resource"
)

// TestSubscriptionsOfAnyHistory: after any events in any order, the last two streams are
// kept, at most one is open, and a proxy is online if one of the two is open.
func TestSubscriptionsOfAnyHistory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		status := memstore.NewStatus()
		s, err := insight.Open(t.Context(), insight.Options{Store: status, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		var connected []uint64
		live := map[uint64]bool{}
		for i := range rapid.Uint64Range(1, 30).Draw(t, "steps") {
			n := rapid.Uint64Range(0, i).Draw(t, "stream")
			switch {
			case rapid.Bool().Draw(t, "connect"):
				s.Connected(event("web", i))
				connected, live[i] = append(connected, i), true
			case rapid.Bool().Draw(t, "disconnect"):
				s.Disconnected(event("web", n))
				delete(live, n)
			default:
				s.Acknowledged(typed("web", n, resource.Cluster))
			}
			in, _, err := s.Read(t.Context(), "default", "web")
			if err != nil {
				t.Fatal(err)
			}
			kept := connected[max(0, len(connected)-2):]
			want := slices.ContainsFunc(kept, func(n uint64) bool { return live[n] })
			if in.Online() != want {
				t.Fatalf("online is %v, of %v the live ones are %v", in.Online(), kept, live)
			}
			if in == nil {
				continue
			}
			open := 0
			for _, sub := range in.Subscriptions {
				if sub.DisconnectTime == nil {
					open++
				}
			}
			if open > 1 || len(in.Subscriptions) != len(kept) {
				t.Fatalf("%d of %d subscriptions are open, %d streams were kept", open, len(in.Subscriptions), len(kept))
			}
		}
		if err := errors.Join(s.Close(t.Context()), status.Close()); err != nil {
			t.Fatal(err)
		}
	})
}

// FuzzTexts: with any name and texts of a proxy, its insight can be written within the limit
// of the store, and is the same when it is read again.
func FuzzTexts(f *testing.F) {
	f.Add("default.web", "1.0", "refused")
	f.Add("a.b.c", strings.Repeat("\x00", 300), strings.Repeat("ä", 2000))
	f.Add(".", "\xff\xfe", "</script>")
	f.Fuzz(func(t *testing.T, node, version, text string) {
		status := memstore.NewStatus()
		o := insight.Options{Store: status, Log: slog.New(slog.NewTextHandler(t.Output(), nil))}
		s, err := insight.Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		s.Described(node, insight.Versions{Proxy: insight.ProxyVersion{Version: version}, Dependencies: map[string]string{version: text}})
		for i := range uint64(3) {
			for _, typ := range resource.Types {
				e := typed("", i, typ)
				e.Node, e.Error = node, text
				if typ == resource.Cluster {
					s.Connected(e)
				}
				s.Rejected(e)
			}
			e := event("", i)
			e.Node = node
			s.Disconnected(e)
		}
		m, name, _ := strings.Cut(node, ".")
		want, found, err := s.Read(t.Context(), m, name)
		if err != nil || (found && mesh.NodeID(m, name) != node) {
			t.Fatalf("%v, %v", found, err)
		}
		if err := s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		rows, err := status.List(t.Context(), "dataplane_insight", store.AnyScope)
		if err != nil || (len(rows) == 1) != found {
			t.Fatalf("%d rows, %v", len(rows), err)
		}
		if s, err = insight.Open(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		got, _, err := s.Read(t.Context(), m, name)
		if err != nil {
			t.Fatal(err)
		}
		if found {
			want.Last().Generation++
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("written and read (-want +got):\n%s", d)
		}
		if err := errors.Join(s.Close(t.Context()), status.Close()); err != nil {
			t.Fatal(err)
		}
	})
}
