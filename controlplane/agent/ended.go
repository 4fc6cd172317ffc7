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
	"github.com/meshgate/meshgate/xds/alarm"
)

// Pauses between attempts to report that an Envoy has ended.
const (
	tellFirst = 200 * time.Millisecond
	tellMax   = 10 * time.Second
)

// tellEnded reports every Envoy that has ended to the control plane, until ctx ends. While
// Redis is away, a revocation cannot be confirmed as long as a filter out of reach may read
// Redis. These reports tell the control plane that such a filter is gone.
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
			if alarm.Rest(ctx, pause) != nil {
				return
			}
			pause = min(2*pause, tellMax)
		}
	}
}

// errTooEarly says that the control plane does not know the next Envoy yet. That Envoy
// starts with what the ended Envoy believed about Redis, so until then the control plane
// must keep counting the ended one.
var errTooEarly = errors.New("the next envoy is not linked yet")

// tellNow reports the ends that were not reported yet. gone says that no Envoy follows. The
// trust of the last Envoy is then removed first, with two exceptions. If an Envoy that
// cannot be stopped has read the trust, that Envoy still counts. If the control plane does
// not answer, it keeps counting the Envoy anyway, and a gateway that is started again
// meanwhile would have nothing to decide tokens by.
func (a *Agent) tellNow(ctx context.Context, gone bool) error {
	if a.Sidecar != nil && a.Sidecar.ZoneType != "" {
		return nil // it has no filter that could believe anything
	}
	round := a.processes.rounds()
	ended := a.processes.untold(gone)
	if len(ended.Processes) == 0 {
		return nil
	}
	if ended.Gone {
		// This report only tests whether the control plane answers. It names no successor
		// and does not set Gone, so no filter that still counts is forgotten.
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
	defer func() { _ = resp.Body.Close() }() // its text is not used
	if resp.StatusCode == http.StatusTooEarly {
		return errTooEarly
	}
	if resp.StatusCode/100 != 2 {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
		return &notTaken{resp.StatusCode, strings.TrimSpace(string(text))}
	}
	return nil
}

// notTaken is an answer that refuses the report.
type notTaken struct {
	status int
	text   string
}

// Error implements error.
func (e *notTaken) Error() string { return fmt.Sprintf("it answered %d: %s", e.status, e.text) }

// answered reports whether the control plane has answered, whatever it said. A 5xx does not
// count: the control plane is not there, or cannot store anything now.
func answered(err error) bool {
	e, ok := errors.AsType[*notTaken](err)
	return errors.Is(err, errTooEarly) || ok && e.status < http.StatusInternalServerError
}
