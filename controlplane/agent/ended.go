package agent

import (
	"bytes"
	"context"
	"encoding/json"
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
			err := a.tellNow(ctx)
			if err == nil {
				pause = tellFirst
				break
			}
			if !warned && ctx.Err() == nil {
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

// tellNow tells what is untold.
func (a *Agent) tellNow(ctx context.Context) error {
	names := a.processes.untold()
	if len(names) == 0 {
		return nil
	}
	if err := a.postEnded(ctx, names); err != nil {
		return err
	}
	return a.processes.told(names)
}

func (a *Agent) postEnded(ctx context.Context, names []string) error {
	token, err := a.token()
	if err != nil {
		return err
	}
	body, err := json.Marshal(contract.Ended{Processes: names})
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
	if resp.StatusCode/100 != 2 {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
		return fmt.Errorf("it answered %d: %s", resp.StatusCode, strings.TrimSpace(string(text)))
	}
	return nil
}
