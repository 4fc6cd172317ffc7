package agent

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshgate/meshgate/controlplane/health"
)

// TestTokenThatEnds: the end of a token is reported in the last sixth of its life, for each
// kind of proxy and for each reason why there is no successor, in one line of the log. The
// report ends once there is a successor.
func TestTokenThatEnds(t *testing.T) {
	const day = 24 * time.Hour
	for name, tc := range map[string]struct {
		sidecar *Sidecar
		want    string
	}{
		"gateway": {nil, "ends at 2000-01-31T00:00:00Z, in 5 days: its agent could not take a successor, which it tries since two thirds of its life are over (the control plane is away)"},
		"sidecar": {&Sidecar{Mesh: "m"}, "ends at 2000-01-31T00:00:00Z, in 5 days: tokens of sidecars are not renewed by themselves. Put a new one there"},
	} {
		dir := t.TempDir()
		synctest.Test(t, func(t *testing.T) {
			var log bytes.Buffer
			var answers atomic.Bool
			file := filepath.Join(dir, "token")
			put := func() {
				if err := os.WriteFile(file, []byte(tokenAt(time.Now(), 30*day)), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			put()
			a := &Agent{
				renewNow: make(chan struct{}, 1), conditions: newConditions(slog.New(slog.NewTextHandler(&log, nil))),
				Options: Options{Name: "n", Sidecar: tc.sidecar, TokenFile: file, Log: slog.New(slog.DiscardHandler)},
			}
			n := &renewal{Agent: a, now: time.Now, again: func() {}, renew: func(context.Context, string) (string, error) {
				if !answers.Load() {
					return "", errors.New("the control plane is away")
				}
				return tokenAt(time.Now(), 30*day), nil
			}}
			ctx, cancel := context.WithCancel(t.Context())
			watched := make(chan struct{})
			go func() { defer close(watched); a.watchToken(ctx) }()
			runRenewal(t, n, func() {
				expect := func(when string, state health.State, reason, text string) {
					t.Helper()
					synctest.Wait()
					if c := a.conditions.Get(conditionToken); c.State != state || c.Reason != reason || !strings.Contains(c.Text, text) {
						t.Errorf("%s, %s: %+v", name, when, c)
					}
				}
				time.Sleep(25*day - time.Hour)
				expect("before the last sixth", health.OK, "", "")
				time.Sleep(2 * time.Hour)
				expect("in the last sixth", health.Degraded, "ends_soon", strings.Replace(tc.want, "5 days", "4 days", 1))
				time.Sleep(5 * day)
				expect("after the end", health.Degraded, "expired", "")
				if answers.Store(true); tc.sidecar != nil {
					put()
				}
				time.Sleep(renewMax)
				expect("with a successor", health.OK, "", "")
			})
			cancel()
			<-watched
			if got := strings.Count(log.String(), "condition=token "); got != 3 {
				t.Errorf("%s: %d lines: %s", name, got, &log)
			}
		})
	}
}
