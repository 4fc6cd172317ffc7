package storetest

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// Points is a store in which one call can fail: [Failpoints] or [StatusFailpoints].
type Points interface {
	Arm(at int)
	Calls() int
	Hit() string
}

// Trial is an act on a fresh store, which is done once.
type Trial struct {
	Points Points
	// Act does it. It returns an error if the caller of the act is told that it failed.
	Act func() error
	// State returns everything that must not be half written, in a form that does not depend
	// on clocks. It is nil for acts that only read; these must report failures.
	State func() string
	// Complaints, unless nil, is the log. A failure must appear there once.
	Complaints *Complaints
	// Served, unless nil, checks that what worked before is still served during the failure.
	Served func() error
	// End, unless nil, ends what Act has begun.
	End func()
}

// EveryCallFailsOnce fails each call of the store that an act makes, one by one; begin makes
// a fresh trial each time. Whichever call fails: nothing panics, no success is claimed for
// what did not happen, nothing is half written, what worked is still served, the log shows
// the failure once, and the act succeeds afterwards.
func EveryCallFailsOnce(t *testing.T, begin func() Trial) {
	t.Helper()
	calls, after := undisturbed(t, begin())
	for at := 1; at <= calls; at++ {
		disturbed(t, begin(), at, after)
	}
}

// undisturbed does the act without a failure. It returns the number of calls and the
// resulting state.
func undisturbed(t *testing.T, trial Trial) (calls int, after string) {
	t.Helper()
	defer trial.end()
	trial.Points.Arm(0)
	err := trial.Act()
	calls = trial.Points.Calls()
	if err != nil || calls == 0 {
		t.Fatalf("without a failure: %v after %d calls", err, calls)
	}
	if n := trial.complaints(); n != 0 {
		t.Fatalf("without a failure the log has %d complaints: %s", n, trial.Complaints)
	}
	return calls, trial.state()
}

// disturbed does the act while one call fails, and then again.
func disturbed(t *testing.T, trial Trial, at int, after string) {
	t.Helper()
	defer trial.end()
	before := trial.state()
	trial.Points.Arm(at)
	err := trial.Act()
	call := trial.Points.Hit()
	if call == "" {
		t.Fatalf("call %d did not happen", at)
	}
	where := fmt.Sprintf("call %d (%s)", at, call)
	left := trial.state()
	switch {
	case err == nil && trial.State == nil:
		t.Errorf("%s failed, and nobody is told", where)
	case err == nil && left != after:
		t.Errorf("%s failed, and success is claimed; the state differs: %s", where, cmp.Diff(after, left))
	case err != nil && left != before:
		t.Errorf("%s failed (%v) and left something: %s", where, err, cmp.Diff(before, left))
	}
	if n := trial.complaints(); err != nil && trial.Complaints != nil && n != 1 || n > 1 {
		t.Errorf("%s failed (%v), and the log has %d complaints: %s", where, err, n, trial.Complaints)
	}
	if trial.Served != nil {
		if err := trial.Served(); err != nil {
			t.Errorf("%s failed, and what was good is not served: %v", where, err)
		}
	}
	if err == nil {
		return
	}
	trial.Points.Arm(0)
	if err := trial.Act(); err != nil || trial.state() != after {
		t.Errorf("after %s had failed: %v, and the state differs: %s", where, err, cmp.Diff(after, trial.state()))
	}
}

func (r *Trial) end() {
	if r.End != nil {
		r.End()
	}
}

func (r *Trial) state() string {
	if r.State == nil {
		return ""
	}
	return r.State()
}

func (r *Trial) complaints() int {
	if r.Complaints == nil {
		return 0
	}
	return r.Complaints.count()
}

// Complaints is a log handler that keeps warnings and errors.
type Complaints struct {
	mu    sync.Mutex
	lines []string
}

// Enabled implements [slog.Handler].
func (c *Complaints) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn
}

// WithAttrs implements [slog.Handler].
func (c *Complaints) WithAttrs([]slog.Attr) slog.Handler { return c }

// WithGroup implements [slog.Handler].
func (c *Complaints) WithGroup(string) slog.Handler { return c }

// Handle implements [slog.Handler].
func (c *Complaints) Handle(_ context.Context, r slog.Record) error {
	line := r.Message
	r.Attrs(func(a slog.Attr) bool {
		line += " " + a.String()
		return true
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lines = append(c.lines, line)
	return nil
}

// String returns the complaints, one per line.
func (c *Complaints) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(c.lines, "\n")
}

func (c *Complaints) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.lines)
}

// Dump returns everything that a store holds of some kinds in some scopes, without times. It
// is meant for [Trial].State.
func Dump(t testing.TB, s store.Store, kinds []*model.Kind, scopes ...string) string {
	t.Helper()
	var out strings.Builder
	err := s.View(context.Background(), func(r store.Reader) error {
		for _, k := range kinds {
			for _, scope := range scopes {
				list, err := r.List(k, store.Query{Scope: scope})
				if err != nil {
					return err
				}
				for _, res := range list {
					spec, err := json.Marshal(res.Spec)
					if err != nil {
						return err
					}
					fmt.Fprintf(&out, "%s %s/%s version %d %s\n", k.Name, scope, res.Name, res.Version, spec)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}
