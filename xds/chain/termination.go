package chain

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/filter/contract"
)

// terminationOf tells the filter what each consumer is answered. For a consumer
// the most specific instance counts, of those bound to it and those bound to
// nobody, in this order: consumer with route and service, with route, with
// service; route and service; consumer alone; route; service; global. Disabled
// instances are not executed and hide nothing.
func terminationOf(a Attached) (out contract.Plugin, runs bool, err error) {
	t := &contract.Termination{}
	hidesGlobal := false
	if p := a.Plugin; p != nil {
		out.ID = p.ID
		hidesGlobal = p.Spec.Route != "" && p.Spec.Service != ""
		if t.Default, err = answerOf(p); err != nil {
			return out, false, err
		}
	}
	for at, bound := range a.Bound {
		if bound == nil || at == atGlobal && hidesGlobal {
			continue
		}
		for _, p := range bound.Plugins {
			if _, known := t.Consumers[p.Spec.Consumer]; known || !p.Spec.Enabled {
				continue
			}
			answer, err := answerOf(p)
			if err != nil {
				return contract.Plugin{ID: p.ID}, false, err
			}
			if out.ID == "" {
				out.ID = p.ID
			}
			if t.Consumers == nil {
				t.Consumers = map[string]contract.Answered{}
			}
			t.Consumers[p.Spec.Consumer] = *answer
		}
	}
	out.Termination = t
	return out, t.Default != nil || len(t.Consumers) > 0, nil
}

// answerOf prepares the answer of one instance.
func answerOf(p *view.Plugin) (*contract.Answered, error) {
	if p.LeftOut {
		return nil, errLeftOut
	}
	var c gateway.TerminationConfig
	if err := decode(p, &c); err != nil {
		return nil, err
	}
	if c.Echo {
		return nil, errors.New("echo is not supported")
	}
	out := &contract.Answered{
		Status: c.StatusCode, ContentType: c.ContentType, Body: c.Body, Trigger: strings.ToLower(c.Trigger),
	}
	if c.Body != "" {
		return out, nil
	}
	text := c.Message
	if text == "" {
		text = shortText(c.StatusCode)
	}
	var err error
	out.Body, err = message(text)
	return out, err
}

// message is the document that gateways answer with. It has no escapes that only
// pages of HTML need.
func message(text string) (string, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(map[string]string{"message": text}); err != nil {
		return "", fmt.Errorf("encode message: %w", err)
	}
	return strings.TrimSuffix(b.String(), "\n"), nil
}

// shortText is the text of a status as a sentence: "Service unavailable".
func shortText(status int) string {
	text := http.StatusText(status)
	if text == "" {
		return fmt.Sprintf("Status %d", status)
	}
	words := strings.Split(text, " ")
	for i, w := range words[1:] {
		if w != strings.ToUpper(w) { // URI stays
			words[i+1] = strings.ToLower(w)
		}
	}
	return strings.Join(words, " ")
}
