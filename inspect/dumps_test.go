package inspect

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/insight"
	"github.com/meshgate/meshgate/controlplane/nodes"
	"github.com/meshgate/meshgate/xds/resource"
)

var errUnlinked = errors.New("no link")

// rig is Dumps with nodes that a test plays.
type rig struct {
	*Dumps
	answer func(ctx context.Context, node string) ([]byte, error)
	state  string
	set    *resource.Set
}

func newRig() *rig {
	r := &rig{state: insight.Connected, set: resource.NewSet(nil, map[string]string{"identity": "1"})}
	r.Dumps = NewDumps(DumpOptions{
		Ask: func(ctx context.Context, node, path string) ([]byte, error) {
			if path != "/config_dump?include_eds" {
				return nil, errors.New(path)
			}
			return r.answer(ctx, node)
		},
		Unlinked: func(err error) bool { return errors.Is(err, errUnlinked) },
		Last:     func(string) (*resource.Set, *resource.Set) { return r.set, r.set },
		Node:     func(name string) (nodes.Node, error) { return nodes.Node{Name: name, State: r.state}, nil },
	})
	return r
}

// TestDumpsSayWhereTheyComeFrom: only the answer of the proxy itself has no source.
func TestDumpsSayWhereTheyComeFrom(t *testing.T) {
	const own = `{"configs":[]}`
	says := func(text string, err error) func(context.Context, string) ([]byte, error) {
		return func(context.Context, string) ([]byte, error) { return []byte(text), err }
	}
	gone := fault.Wrap(fault.Unavailable, errUnlinked, "not connected")
	for name, c := range map[string]struct {
		answer func(context.Context, string) ([]byte, error)
		state  string
		none   bool
		from   string
		want   string
	}{
		"the proxy":              {answer: says(own, nil), state: insight.Connected, want: own},
		"asked for":              {answer: says(own, nil), state: insight.Connected, from: FromProxy, want: own},
		"the record":             {answer: says(own, nil), state: insight.Connected, from: FromControlPlane, want: SourceAsked},
		"the record of one away": {answer: says(own, nil), state: insight.Away, from: FromControlPlane, want: SourceAway},
		"no agent":               {answer: says("", gone), state: insight.Connected, want: SourceUnasked},
		"away":                   {answer: says("", gone), state: insight.Away, want: SourceAway},
		"refused":                {answer: says("", gone), state: insight.Refused, want: SourceAway},
		"never seen":             {answer: says("", gone), state: insight.Away, none: true, want: SourceNothing},
		"silent":                 {answer: says("", fault.New(fault.Unavailable, "too slow")), state: insight.Connected, want: sourceSilent + "too slow"},
		"silent for too long":    {answer: says("", context.DeadlineExceeded), state: insight.Connected, want: sourceSilent},
		"no dump":                {answer: says("<html>", nil), state: insight.Connected, want: sourceSilent + "its answer is no JSON object"},
	} {
		r := newRig()
		r.answer, r.state = c.answer, c.state
		if c.none {
			r.set = nil
		}
		var got string
		err := r.XDS(t.Context(), "m.a", c.from, func(dump []byte) { got = string(dump) })
		if err != nil || !strings.Contains(got, c.want) || c.want != own && !strings.Contains(got, `"source": "`) {
			t.Errorf("%s: %s %v", name, got, err)
		}
	}
	r := newRig()
	show := func([]byte) { t.Error("a dump is shown") }
	if err := r.XDS(t.Context(), "m.a", "nowhere", show); !fault.Is(err, fault.Invalid) {
		t.Errorf("from nowhere: %v", err)
	}
	r.answer = says("", errors.New("broken"))
	if err := r.XDS(t.Context(), "m.a", "", show); err == nil || fault.CodeOf(err) != fault.Internal {
		t.Errorf("broken: %v", err)
	}
}

// TestDumpsAtOnce: there is one dump per node at a time, and a limited number in total. A
// caller that waits for a slow node takes no room, and nobody waits for ever.
func TestDumpsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		var mu sync.Mutex
		now, most := map[string]int{}, map[string]int{}
		hold := make(chan struct{})
		r.answer = func(_ context.Context, node string) ([]byte, error) {
			mu.Lock()
			defer mu.Unlock()
			for _, n := range []string{node, "all"} {
				now[n]++
				most[n] = max(most[n], now[n])
			}
			return []byte(`{}`), nil
		}
		show := func(node string) func([]byte) {
			return func([]byte) {
				if node != "fast" {
					<-hold
				}
				mu.Lock()
				defer mu.Unlock()
				now[node]--
				now["all"]--
			}
		}
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				if err := r.XDS(t.Context(), "slow", "", show("slow")); err != nil && !fault.Is(err, fault.Unavailable) {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		if err := r.XDS(t.Context(), "fast", "", show("fast")); err != nil {
			t.Errorf("another node waits for a slow one: %v", err)
		}
		for _, node := range []string{"b", "c", "d", "e", "f"} {
			all.Go(func() {
				if err := r.XDS(t.Context(), node, "", show(node)); err != nil && !fault.Is(err, fault.Unavailable) {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		start := time.Now()
		if err := r.XDS(t.Context(), "g", "", show("g")); !fault.Is(err, fault.Unavailable) || time.Since(start) > Patience {
			t.Errorf("after %s: %v", time.Since(start), err)
		}
		close(hold)
		all.Wait()
		if most["slow"] != 1 || most["all"] != AtOnce {
			t.Errorf("at once: %v", most)
		}
		if err := r.XDS(t.Context(), "g", "", show("g")); err != nil || len(r.busy) != 0 {
			t.Errorf("afterwards: %v, %d busy", err, len(r.busy))
		}
	})
}

// TestDumpsOfWhoGoesAway: a caller that goes away gets nothing and leaves nothing behind.
func TestDumpsOfWhoGoesAway(t *testing.T) {
	r := newRig()
	ctx, cancel := context.WithCancel(t.Context())
	r.answer = func(asking context.Context, _ string) ([]byte, error) {
		cancel()
		<-asking.Done()
		return nil, asking.Err()
	}
	if err := r.XDS(ctx, "m.a", "", func([]byte) { t.Error("a dump is shown") }); !errors.Is(err, context.Canceled) || len(r.busy) != 0 {
		t.Errorf("%v, %d busy", err, len(r.busy))
	}
}

// TestPagesOfEnvoy: what only an Envoy knows is shown as it says it, and is missing without it.
func TestPagesOfEnvoy(t *testing.T) {
	var asked string
	answer := func() ([]byte, error) { return []byte("cluster.a.x: 1"), nil }
	d := NewDumps(DumpOptions{Ask: func(_ context.Context, node, path string) ([]byte, error) {
		asked = node + " " + path
		return answer()
	}})
	var got string
	show := func(page []byte) { got = string(page) }
	if err := d.Ask(t.Context(), "m.a", "/stats", show); err != nil || got != "cluster.a.x: 1" || asked != "m.a /stats" {
		t.Errorf("%q of %q: %v", got, asked, err)
	}
	for name, cause := range map[string]error{
		"away":   fault.Wrap(fault.Unavailable, errUnlinked, "not connected"),
		"silent": context.DeadlineExceeded,
	} {
		got = ""
		answer = func() ([]byte, error) { return nil, cause }
		if err := d.Ask(t.Context(), "m.a", "/stats", show); !fault.Is(err, fault.Unavailable) || got != "" {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}
