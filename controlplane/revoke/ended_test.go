package revoke

import (
	"errors"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/filter/contract"
)

// What a filter believed stays on its disk when its process dies. Only the process that was
// started with that disk replaces it. Another filter of the node does not, because it may
// run on another host, and neither does a filter of another node.
func TestEndedNeedsItsSuccessor(t *testing.T) {
	dead, heir, other := strings.Repeat("A", 26), strings.Repeat("B", 26), strings.Repeat("C", 26)
	for name, tt := range map[string]struct {
		linked    map[string]string // instances by node
		cut       bool              // these links have ended since
		successor string
		forgotten bool
	}{
		"nobody is linked":                {successor: heir},
		"another of the node is":          {linked: map[string]string{"node": instance(other, "x")}, successor: heir},
		"its name begins alike":           {linked: map[string]string{"node": instance(heir+"B", "x")}, successor: heir},
		"the successor of another node":   {linked: map[string]string{"elsewhere": instance(heir, "x")}, successor: heir},
		"an agent that names no one":      {linked: map[string]string{"node": instance(heir, "x")}},
		"the successor is linked":         {linked: map[string]string{"node": instance(heir, "x")}, successor: heir, forgotten: true},
		"the successor was, and is known": {linked: map[string]string{"node": instance(heir, "x")}, cut: true, successor: heir, forgotten: true},
	} {
		t.Run(name, func(t *testing.T) {
			virtually(t, nil, func(t *testing.T, w *world, _ *scripted) {
				f, _ := w.pipe("node", contract.Hello{Instance: instance(dead, "x")})
				f.cut()
				for node, i := range tt.linked {
					next, _ := w.pipe(node, contract.Hello{Instance: i})
					if tt.cut {
						next.cut()
					}
				}
				all := 1 + len(tt.linked)
				err := w.r.Ended(Node{ID: "node"}, contract.Ended{Processes: []string{dead}, Successor: tt.successor})
				if tt.forgotten {
					if n := w.rows(); err != nil || n != all-1 {
						t.Errorf("%v, %d rows of %d are left", err, n, all)
					}
				} else if n := w.r.Stats().KnownFilters; !errors.Is(err, errNoSuccessor) || n != all {
					t.Errorf("%v, %d filters of %d are known", err, n, all)
				}
			})
		})
	}
}

// The successor of a filter may itself have died, before or after it was linked. The last
// process of the run directory replaces all of them.
func TestEndedOneAfterAnother(t *testing.T) {
	first, second, third := strings.Repeat("A", 26), strings.Repeat("B", 26), strings.Repeat("C", 26)
	for name, linked := range map[string][]string{"it was never linked": {first}, "it was linked": {first, second}} {
		t.Run(name, func(t *testing.T) {
			virtually(t, nil, func(t *testing.T, w *world, _ *scripted) {
				w.pipe("node", contract.Hello{Instance: "of another host"})
				for _, p := range linked {
					f, _ := w.pipe("node", contract.Hello{Instance: instance(p, "x")})
					f.cut()
				}
				ended := contract.Ended{Processes: []string{first, second}, Successor: third}
				if err := w.r.Ended(Node{ID: "node"}, ended); !errors.Is(err, errNoSuccessor) || w.rows() != 1+len(linked) {
					t.Errorf("before the third: %v, %d rows", err, w.rows())
				}
				w.pipe("node", contract.Hello{Instance: instance(third, "x")})
				if err := w.r.Ended(Node{ID: "node"}, ended); err != nil || w.rows() != 2 {
					t.Errorf("after the third: %v, %d rows", err, w.rows())
				}
			})
		})
	}
}

// No revocation depends on an Envoy without a filter, so its agent need not report again
// and again that it has ended.
func TestEndedWithoutFilter(t *testing.T) {
	virtually(t, nil, func(t *testing.T, w *world, _ *scripted) {
		ended := contract.Ended{Processes: []string{strings.Repeat("A", 26)}, Successor: strings.Repeat("B", 26)}
		if err := w.r.Ended(Node{ID: "node"}, ended); err != nil {
			t.Error(err)
		}
	})
}

// A restart of the control plane changes nothing: it knows the successor from its store and
// counts it.
func TestEndedAfterRestart(t *testing.T) {
	dead, heir := strings.Repeat("A", 26), strings.Repeat("B", 26)
	virtually(t, nil, func(t *testing.T, w *world, _ *scripted) {
		for _, p := range []string{dead, heir} {
			f, _ := w.pipe("node", contract.Hello{Instance: instance(p, "x")})
			f.cut()
		}
		w.crash()
		w.open(nil)
		if err := w.r.Ended(Node{ID: "node"}, contract.Ended{Processes: []string{dead}, Successor: heir}); err != nil || w.rows() != 1 {
			t.Errorf("%v, %d rows", err, w.rows())
		}
	})
}
