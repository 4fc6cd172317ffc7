package adminlink

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/meshgate/meshgate/controlplane/health"
)

// Report is what an agent says of its proxy, as its status tells it to everybody there.
type Report struct {
	// Trouble says what is the matter with its Envoy if that serves nobody, "" otherwise.
	Trouble string `json:"trouble,omitempty"`
	// NotReady is the message of its /ready while that is not 200, "" otherwise.
	NotReady string `json:"notReady,omitempty"`
	// Conditions are those that are not in order.
	Conditions conditions `json:"conditions,omitempty"`
}

// conditions are read as far as they are listened to: what a few bytes each become is
// kept for as long as the link lives.
type conditions []health.Condition

// UnmarshalJSON implements json.Unmarshaler.
func (c *conditions) UnmarshalJSON(text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	if start, err := d.Token(); err != nil || start != json.Delim('[') {
		return err // null is none
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
// those that are asked by a ping without a body, say the trouble alone, as plain text.
var reports = []byte("report")

// Bounds of a report: how many conditions it has, and the length of each text in bytes.
const (
	maxConditions = 16
	maxName       = 64
)

// encode is the body of the pong to a ping.
func (r *Report) encode(ping []byte) []byte {
	r.bound()
	if bytes.Equal(ping, reports) {
		if body, err := json.Marshal(r); err == nil && len(body) <= maxChunk {
			return body
		}
	}
	return []byte(r.Trouble)
}

// parseReport reads the body of a pong. What is no report is the trouble itself.
func parseReport(body []byte) (r Report) {
	if !bytes.HasPrefix(body, []byte("{")) || json.Unmarshal(body, &r) != nil {
		r = Report{Trouble: string(body)}
	}
	r.bound()
	return r
}

// bound cuts a report to what is said and heard of it.
func (r *Report) bound() {
	cut := func(text *string, n int) {
		if len(*text) > n {
			*text = strings.Clone((*text)[:n]) // the rest is not kept
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
