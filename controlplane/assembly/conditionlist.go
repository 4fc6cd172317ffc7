package assembly

import (
	"context"
	"fmt"
	"net/http"

	"github.com/meshgate/meshgate/controlplane/health"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/nodes"
)

// conditions serves GET /conditions of both APIs. It answers at once, or with since and wait
// when the mark is no longer that of since or the time is up.
func (cp *ControlPlane) conditions(w http.ResponseWriter, r *http.Request) {
	query, err := httpkit.Query(r)
	if err != nil {
		httpkit.WriteMessage(w, http.StatusBadRequest, "the query is malformed")
		return
	}
	asked, err := nodes.Ask(query) // parses since and wait as well
	if err != nil {
		httpkit.WriteMessage(w, http.StatusBadRequest, err.Error())
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), asked.Wait)
	defer cancel()
	_ = httpkit.WriteJSON(w, http.StatusOK, cp.awaitConditions(r.Context(), ctx.Done(), asked.Since)) // a caller that is gone asks again
}

// awaitConditions returns the conditions when their mark differs from the given one, or when
// the time is up. Every reading probes the conditions, so it reads once more at the end of
// the time.
func (cp *ControlPlane) awaitConditions(ctx context.Context, up <-chan struct{}, mark string) (l health.Report) {
	for last := false; ; {
		moves, moved := cp.ready.conditions.Moves() // taken before the conditions are read, so that no change is missed
		l.Mark = fmt.Sprintf("%s.%d", cp.instance, moves)
		if l.Message, l.Conditions = cp.ready.state(ctx); l.Message == "" {
			l.Message = health.Ready
		}
		if last || l.Mark != mark {
			return l
		}
		select {
		case <-moved:
		case <-up:
			last = true
		}
	}
}
