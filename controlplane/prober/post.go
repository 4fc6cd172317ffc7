package prober

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/xds/probing"
)

// maxAnswer bounds how much of a refusal is read.
const maxAnswer = 1 << 10

// Post sends a report of a node to the data-plane server at base.
func Post(ctx context.Context, client *http.Client, base, token, node string, report probing.Report) error {
	body, err := json.Marshal(report)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(base, "/")+probing.Path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set(contract.NodeHeader, node)
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // what is left of it is not used
	if resp.StatusCode/100 == 2 {
		return nil
	}
	text, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswer)) // a part of it says enough
	return fmt.Errorf("it answered %d: %s", resp.StatusCode, strings.TrimSpace(string(text)))
}
