package gatewayapi_test

import (
	"context"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/dryrun"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/gatewayapi"
	"github.com/meshgate/meshgate/controlplane/turns"
)

// busy refuses all dry runs.
type busy struct{ err error }

func (b busy) Run(context.Context, func(context.Context) error) (*dryrun.Answer, error) {
	return nil, b.err
}

// TestTooManyDryRuns: whoever is too many is told when to come again. An API without dry runs
// refuses them.
func TestTooManyDryRuns(t *testing.T) {
	for want, err := range map[string]error{
		"1": turns.ErrFull,
		"5": fault.Wrap(fault.Unavailable, context.DeadlineExceeded, "it takes too long").Again(4500 * time.Millisecond),
		"":  fault.New(fault.Unavailable, "nobody knows when"),
	} {
		f := setupWith(t, func(o *gatewayapi.Options) { o.DryRun = busy{err} })
		f.do("POST", "/consumers", `{"username":"bob"}`)
		for _, c := range [][3]string{
			{"POST", "/consumers?dryRun=true", `{"username":"new"}`}, {"PUT", "/consumers/bob?dryRun=true", `{}`}, {"PATCH", "/consumers/bob?dryRun=true", `{"custom_id":"x"}`},
			{"DELETE", "/consumers/bob?dryRun=true", ""},
		} {
			if w := f.do(c[0], c[1], c[2]); w.Code != 503 || w.Header().Get("Retry-After") != want {
				t.Errorf("%s: %d %v %s", c[0], w.Code, w.Header(), w.Body)
			}
		}
	}
	without := setup(t, nil)
	if w := without.do("POST", "/consumers?dryRun=true", `{"username":"new"}`); w.Code != 400 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := without.do("GET", "/consumers/new", ""); w.Code != 404 {
		t.Errorf("it was written: %d", w.Code)
	}
}
