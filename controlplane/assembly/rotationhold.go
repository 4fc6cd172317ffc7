package assembly

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/meshgate/meshgate/controlplane/health"
	"github.com/meshgate/meshgate/controlplane/meshca"
)

// rotationSilence is how long after the grace a new authority waits for connected proxies
// that have not answered: more than an honest one needs on the worst of days, and not so
// long that a root which has leaked goes on signing.
const rotationSilence = 5 * time.Minute

// maxHolding bounds the proxies that a text names of one mesh.
const maxHolding = 10

// holds are the meshes whose new authority does not sign because of connected proxies, or of meshes that
// stand still.
type holds struct {
	board    *health.Board
	progress meshca.Progress

	mu sync.Mutex
	// revisions are those that the proxies lack, by mesh.
	revisions map[string]uint64
}

// told implements [meshca.Options].Held.
func (h *holds) told(meshName string, revision uint64) {
	h.mu.Lock()
	if delete(h.revisions, meshName); revision != 0 {
		h.revisions[meshName] = revision
	}
	h.mu.Unlock()
	h.judge(context.Background())
}

// judge says which proxies hold up which meshes. Whoever looks has it said anew.
func (h *holds) judge(context.Context) {
	h.mu.Lock()
	defer h.mu.Unlock()
	reason := "silent"
	var texts []string
	for _, name := range slices.Sorted(maps.Keys(h.revisions)) {
		silent, refusing := h.progress.Lacking(name, h.revisions[name])
		if behind := h.progress.Behind(name, h.revisions[name]); len(behind) > 0 {
			if reason == "silent" {
				reason = "behind"
			}
			texts = append(texts, fmt.Sprintf("the root of mesh %s is not offered to %s, for whom nothing new can be planned", name, few(behind)))
		}
		if len(silent) > 0 {
			texts = append(texts, fmt.Sprintf("of mesh %s %s have not answered", name, few(silent)))
		}
		if len(refusing) > 0 {
			reason = "refused"
			texts = append(texts, fmt.Sprintf("of mesh %s %s refuse it", name, few(refusing)))
		}
	}
	if len(texts) == 0 {
		h.board.Good(conditionRotations)
		return
	}
	h.board.Set(conditionRotations, health.Finding{State: health.Degraded, Reason: reason, Text: fmt.Sprintf(
		"a new root does not sign yet, and the old one does, because of connected proxies: %s. "+
			"Who has not answered, or is of another mesh, or is an egress to which it is not offered, is waited for until %s after the beginning; who refuses it in its own mesh or as an egress, or is not offered it in its own mesh, until that has ended. "+
			"Look at their overviews and restart them, or revoke the token of a proxy that is not yours (POST /tokens/dataplane/revocations)",
		strings.Join(texts, "; "), rotationGrace+rotationSilence)})
}

// few names the first of a list.
func few(names []string) string {
	if more := len(names) - maxHolding; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:maxHolding], ", "), more)
	}
	return strings.Join(names, ", ")
}
