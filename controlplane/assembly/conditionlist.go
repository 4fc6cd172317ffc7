package assembly

import (
	"context"
	"fmt"
	"net/http"

	"github.com/meshgate/meshgate/controlplane/health"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/nodes"
)

// conditions serves GET /conditions of both APIs: at once, or with since and wait when
// that is not the mark any more, or the time is up.
func (cp *ControlPlane) conditions(w http.ResponseWriter, r *http.Request) {
	query, err := httpkit.Query(r)
	if err != nil {
		httpkit.WriteMessage(w, http.StatusBadRequest, "the query is malformed")
		return
	}
	asked, err := nodes.Ask(query) // which knows since and wait
	if err != nil {
		httpkit.WriteMessage(w, http.StatusBadRequest, err.Error())
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), asked.Wait)
	defer cancel()
	_ = httpkit.WriteJSON(w, http.StatusOK, cp.awaitConditions(r.Context(), ctx.Done(), asked.Since)) // whoever is gone asks again
}

// awaitConditions returns what is the matter once the mark is another one than that, or
// the time is up. Whoever looks has troubles looked into, so that is done at the end of
// the time, too.
func (cp *ControlPlane) awaitConditions(ctx context.Context, up <-chan struct{}, mark string) (l health.Report) {
	for last := false; ; {
		moves, moved := cp.ready.conditions.Moves() // before it is read, so that no change is missed
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
