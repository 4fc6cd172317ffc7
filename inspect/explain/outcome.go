package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/meshgate/meshgate/inspect/interpret"
)

// cannotSay is the outcome for what is not known.
func cannotSay(text string) Outcome {
	if !strings.HasPrefix(text, "cannot say") {
		text = "cannot say: " + text
	}
	return Outcome{Verdict: Unknown, Text: text}
}

// refused is the outcome of a request that a proxy ends.
func refused(r *interpret.Reply, steps []Step) Outcome {
	out := Outcome{Verdict: Refused, Status: r.Status, Text: r.Text}
	if i := slices.IndexFunc(steps, func(s Step) bool { return s.Refused }); i >= 0 {
		by := steps[i]
		out.By = &by
		if r.Text != by.Text {
			out.Text = by.Text + ", so " + r.Text
		}
	}
	if out.Status == 0 {
		out.Text += ": the connection is closed"
	}
	return out
}

// together is the outcome of a request over all of its endpoints.
func together(e *Explanation) Outcome {
	counts := map[string]int{}
	for i := range e.Endpoints {
		counts[e.Endpoints[i].Outcome.Verdict]++
	}
	text := fmt.Sprintf("%d endpoints are possible", len(e.Endpoints)+e.LeftOut)
	if e.LeftOut > 0 {
		text += fmt.Sprintf(", of which %d were not followed", e.LeftOut)
	}
	first := e.Endpoints[0].Outcome
	same := !slices.ContainsFunc(e.Endpoints, func(x Endpoint) bool { return x.Outcome.Status != first.Status })
	switch n := len(e.Endpoints); {
	case counts[Allowed] == n:
		return Outcome{Verdict: Allowed, Text: "allowed: " + text}
	case counts[Refused] == n && same:
		return Outcome{Verdict: Refused, Status: first.Status, By: first.By, Text: first.Text}
	case counts[Unknown] == n:
		return first
	}
	return Outcome{Verdict: Depends, Text: fmt.Sprintf(
		"it depends on the endpoint: %s, %d allow, %d refuse, and of %d it cannot be said", text, counts[Allowed], counts[Refused], counts[Unknown])}
}
