package enrol

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/filter/contract"
)

// Enrol enrols a gateway at an https:// base URL. node is its node id, named what its
// user calls its control plane, if anything, and running says whether its Envoy runs already. It returns a [*Refused] if another attempt would not
// help. Any other error may be temporary.
func Enrol(ctx context.Context, client *http.Client, base, token, node, named string, running bool, in gateway.Instance) (*Answer, error) {
	return ask(ctx, client, http.MethodPost, base, token, http.Header{contract.NodeHeader: {node}, NamedHeader: {named}, RunningHeader: {strconv.FormatBool(running)}}, in)
}

// Join enrols a proxy of a mesh. Errors are those of [Enrol].
func Join(ctx context.Context, client *http.Client, base, token string, in *Proxy) (*Answer, error) {
	return ask(ctx, client, http.MethodPost, base, token, nil, in)
}

// Leave deregisters what the instance of a proxy has registered; of in it needs the names and the
// instance. Errors are those of [Enrol].
func Leave(ctx context.Context, client *http.Client, base, token string, in *Proxy) error {
	_, err := ask(ctx, client, http.MethodDelete, base, token, nil, in)
	return err
}

// ask sends a request. A proxy of a mesh names itself in the body, a gateway in a header.
func ask(ctx context.Context, client *http.Client, method, base, token string, more http.Header, in any) (*Answer, error) {
	body, err := json.Marshal(in)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, method, base+Path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	maps.Copy(req.Header, more)
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
	if err != nil {
		return nil, err
	}
	if resp.StatusCode >= http.StatusInternalServerError {
		return nil, &Unavailable{Status: resp.StatusCode, Text: messageOf(text)}
	}
	if resp.StatusCode == http.StatusNoContent {
		return nil, nil // the proxy has left, or is about to
	}
	if resp.StatusCode != http.StatusOK {
		return nil, &Refused{Status: resp.StatusCode, Text: cmp.Or(messageOf(text), strings.TrimSpace(string(text)))}
	}
	var a Answer
	if err := json.Unmarshal(text, &a); err != nil {
		return nil, fmt.Errorf("the control plane's answer cannot be read: %w", err)
	}
	return &a, nil
}

// Refused is the error of an enrolment that the control plane has understood and refused,
// with its HTTP status and its reason.
type Refused struct {
	Status int
	Text   string
}

// Unavailable is the error of an enrolment that the control plane cannot judge now, with
// its HTTP status and its reason, if it gives one.
type Unavailable struct {
	Status int
	Text   string
}

// Error implements error.
func (e *Unavailable) Error() string {
	text := fmt.Sprintf("the control plane cannot enrol nodes now: it answered %d", e.Status)
	if e.Text != "" {
		text += ": " + e.Text
	}
	return text
}

// messageOf returns the message of an error document. It is empty if the document lists
// violations.
func messageOf(body []byte) string {
	var doc refusal
	_ = json.Unmarshal(body, &doc) // a server in front of the control plane may answer anything
	if len(doc.Violations) > 0 {
		return ""
	}
	return doc.Message
}

// Error implements error.
func (e *Refused) Error() string {
	return fmt.Sprintf("the control plane refused the enrolment with %d: %s", e.Status, e.Text)
}
