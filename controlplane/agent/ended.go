package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/meshgate/meshgate/filter/contract"
)

// Pauses between attempts to say that an Envoy has ended.
const (
	tellFirst = 200 * time.Millisecond
	tellMax   = 10 * time.Second
)

// tellEnded tells the control plane of every Envoy that has ended, until ctx ends.
// While Redis is away, a revocation cannot be confirmed as long as a filter that
// is out of reach may read there; this is how one is known to be gone.
func (a *Agent) tellEnded(ctx context.Context) {
	pause := tellFirst
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.processes.wake:
		}
		for warned := false; ; {
			err := a.tellNow(ctx, false)
			if err == nil {
				pause = tellFirst
				break
			}
			if !warned && ctx.Err() == nil && !errors.Is(err, errTooEarly) {
				a.Log.Warn("the control plane could not be told that an envoy has ended, and will be", "node", a.NodeID(), "error", err)
				warned = true
			}
			if rest(ctx, pause) != nil {
				return
			}
			pause = min(2*pause, tellMax)
		}
	}
}

// errTooEarly says that the Envoy that follows the one which has ended is not known to
// the control plane yet. It starts with what that one believed of Redis, so until then
// the control plane must go on counting on that one.
var errTooEarly = errors.New("the next envoy is not linked yet")

// tellNow tells what is untold. gone says that no Envoy follows: what the last one
// was told to believe is removed first, unless an Envoy that cannot be stopped has
// read it, or the control plane does not answer: it then counts on that Envoy all the
// same, and a gateway that is started again meanwhile would have nothing to decide
// tokens by.
func (a *Agent) tellNow(ctx context.Context, gone bool) error {
	round := a.processes.rounds()
	ended := a.processes.untold(gone)
	if len(ended.Processes) == 0 {
		return nil
	}
	if ended.Gone {
		// An agent that names no successor and does not say gone has nothing forgotten that
		// is still counted on.
		if err := a.postEnded(ctx, contract.Ended{Processes: ended.Processes}); err != nil && !answered(err) {
			return fmt.Errorf("what is believed in redis is kept for the next start: %w", err)
		}
		if err := a.dir.removeTrust(); err != nil {
			return err
		}
	}
	if err := a.postEnded(ctx, ended); err != nil {
		return err
	}
	return a.processes.told(ended.Processes, round)
}

func (a *Agent) postEnded(ctx context.Context, ended contract.Ended) error {
	token, err := a.token()
	if err != nil {
		return err
	}
	body, err := json.Marshal(ended)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(a.Address, "/")+contract.EndedPath, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set(contract.NodeHeader, a.NodeID())
	req.Header.Set("Content-Type", "application/json")
	resp, err := a.client().Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // its text is of no use
	if resp.StatusCode == http.StatusTooEarly {
		return errTooEarly
	}
	if resp.StatusCode/100 != 2 {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
		return &notTaken{resp.StatusCode, strings.TrimSpace(string(text))}
	}
	return nil
}

// notTaken is an answer that is none of those the control plane gives to what it can use.
type notTaken struct {
	status int
	text   string
}

// Error implements error.
func (e *notTaken) Error() string { return fmt.Sprintf("it answered %d: %s", e.status, e.text) }

// answered reports whether the control plane was there to hear, whatever it said. A 5xx
// says that it is not, or cannot note anything now.
func answered(err error) bool {
	e, ok := errors.AsType[*notTaken](err)
	return errors.Is(err, errTooEarly) || ok && e.status < http.StatusInternalServerError
}
