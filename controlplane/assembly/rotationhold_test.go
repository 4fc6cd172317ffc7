package assembly

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/controlplane/health"
	"github.com/meshgate/meshgate/controlplane/meshca"
)

// lacking are proxies that hold up whatever is asked about.
type lacking struct {
	meshca.Progress
	silent, refusing, behind []string
}

// Behind implements [meshca.Progress].
func (l *lacking) Behind(string, uint64) []string { return l.behind }

// Lacking implements [meshca.Progress].
func (l *lacking) Lacking(string, uint64) (silent, refusing []string) { return l.silent, l.refusing }

// TestWhoHoldsUpARotationIsNamed: an operator sees in the conditions, and once in the log,
// which proxies keep a new root from signing, as it is at the moment.
func TestWhoHoldsUpARotationIsNamed(t *testing.T) {
	var log strings.Builder
	board := newConditions(slog.New(slog.NewTextHandler(&log, nil)))
	who := &lacking{silent: []string{"web-1", "web-2"}}
	h := &holds{board: board, progress: who, revisions: map[string]uint64{}}
	said := func(state health.State, reason string, names ...string) {
		t.Helper()
		h.judge(context.Background()) // as for everybody who looks
		c := board.Get(conditionRotations)
		if c.State != state || c.Reason != reason {
			t.Errorf("the condition is %s, %s", c.State, c.Reason)
		}
		for _, name := range names {
			if !strings.Contains(c.Text, name) {
				t.Errorf("%q does not name %s", c.Text, name)
			}
		}
	}
	said(health.OK, "")
	h.told("shop", 7)
	said(health.Degraded, "silent", "shop", "web-1", "web-2")
	if got := strings.Count(log.String(), "web-1"); got != 1 {
		t.Errorf("it is logged %d times:\n%s", got, log.String())
	}
	who.silent, who.refusing = []string{"web-2"}, []string{"mail-1"}
	said(health.Degraded, "refused", "web-2", "mail-1")
	if strings.Contains(board.Get(conditionRotations).Text, "web-1") {
		t.Error("who has answered is named")
	}
	who.refusing, who.behind = nil, []string{"the proxies of mesh post"}
	said(health.Degraded, "behind", "web-2", "mesh post")
	h.told("shop", 0)
	said(health.OK, "")
}
