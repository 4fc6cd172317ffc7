package adminlink

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/meshgate/meshgate/controlplane/health"
)

// Report is what an agent reports about its proxy. Its local status says the same.
type Report struct {
	// Trouble describes the problem of an Envoy that does not serve, "" otherwise.
	Trouble string `json:"trouble,omitempty"`
	// NotReady is the message of /ready while that is not 200, "" otherwise.
	NotReady string `json:"notReady,omitempty"`
	// Conditions are the conditions that are not in order.
	Conditions conditions `json:"conditions,omitempty"`
}

// conditions are decoded only up to maxConditions. Otherwise a few bytes for each condition
// could occupy far more memory for as long as the link lives.
type conditions []health.Condition

// UnmarshalJSON implements json.Unmarshaler.
func (c *conditions) UnmarshalJSON(text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	if start, err := d.Token(); err != nil || start != json.Delim('[') {
		return err // null stands for none
	}
	for d.More() && len(*c) < maxConditions {
		var one health.Condition
		if err := d.Decode(&one); err != nil {
			return err
		}
		*c = append(*c, one)
	}
	return nil
}

// reports is the body of a ping that asks for a report. Agents that do not know it, and
// agents that get a ping without a body, answer only with the trouble, as plain text.
var reports = []byte("report")

// Limits of a report: the number of its conditions, and the length of each text in bytes.
const (
	maxConditions = 16
	maxName       = 64
)

// encode returns the body of the pong for a ping.
func (r *Report) encode(ping []byte) []byte {
	r.bound()
	if bytes.Equal(ping, reports) {
		if body, err := json.Marshal(r); err == nil && len(body) <= maxChunk {
			return body
		}
	}
	return []byte(r.Trouble)
}

// parseReport reads the body of a pong. A body that is not a report is the trouble itself.
func parseReport(body []byte) (r Report) {
	if !bytes.HasPrefix(body, []byte("{")) || json.Unmarshal(body, &r) != nil {
		r = Report{Trouble: string(body)}
	}
	r.bound()
	return r
}

// bound cuts a report to its limits.
func (r *Report) bound() {
	cut := func(text *string, n int) {
		if len(*text) > n {
			*text = strings.Clone((*text)[:n]) // so that the rest is not kept in memory
		}
		*text = strings.ToValidUTF8(*text, "?")
	}
	cut(&r.Trouble, maxReason)
	cut(&r.NotReady, maxReason)
	r.Conditions = r.Conditions[:min(len(r.Conditions), maxConditions)]
	for i := range r.Conditions {
		c := &r.Conditions[i]
		if c.State != health.Failed {
			c.State = health.Degraded
		}
		cut(&c.Name, maxName)
		cut(&c.Reason, maxName)
		cut(&c.Text, maxReason)
	}
}
