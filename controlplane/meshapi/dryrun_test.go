package meshapi

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/dryrun"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/turns"
)

// refusing refuses all dry runs.
type refusing struct{ err error }

func (r refusing) Run(context.Context, func(context.Context) error) (*dryrun.Answer, error) {
	return nil, r.err
}

// TestTooManyDryRuns: whoever is too many is told when to come again.
func TestTooManyDryRuns(t *testing.T) {
	for want, err := range map[string]error{
		"1": turns.ErrFull,
		"5": fault.Wrap(fault.Unavailable, context.DeadlineExceeded, "it takes too long").Again(4500 * time.Millisecond),
		"":  fault.New(fault.Unavailable, "nobody knows when"),
	} {
		said, _ := errors.AsType[*fault.Error](err)
		a := newAPI(t, func(o *Options) { o.DryRun = refusing{err} })
		for _, method := range []string{http.MethodPut, http.MethodDelete} {
			a.put(t, "/meshes/m", `{"type":"Mesh","name":"m"}`)
			w := request(a.handler, method, "/meshes/m?dryRun=true", `{"type":"Mesh","name":"m"}`, "Content-Type", mediaJSON)
			if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != want || !strings.Contains(w.Body.String(), said.Detail) {
				t.Errorf("%s: %d %v %s", method, w.Code, w.Header(), w.Body)
			}
		}
	}
}

// TestNoDryRuns: an API without them refuses, and writes nothing.
func TestNoDryRuns(t *testing.T) {
	a := newAPI(t, func(o *Options) { o.DryRun = nil })
	w := request(a.handler, http.MethodPut, "/meshes/m?dryRun=true", `{"type":"Mesh","name":"m"}`, "Content-Type", mediaJSON)
	if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "cannot be tried here") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := request(a.handler, http.MethodGet, "/meshes/m", ""); w.Code != http.StatusNotFound {
		t.Errorf("it was written: %d", w.Code)
	}
}
