package accesslogs

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// These are the reasons of troubles, the worst first.
const (
	ReasonRefused = "sink_refused"
	ReasonFailing = "sink_failing"
	ReasonLosing  = "lines_lost"
)

// maxTold bounds how many sinks a text describes.
const maxTold = 8

// Trouble says what is wrong with the sinks, for operators. reason is empty if nothing is. text
// names each sink with its problem, and how many lines were dropped.
func (r *Receiver) Trouble() (reason, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var told []string
	worst := func(other string) {
		if reason == "" {
			reason = other
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.refused)) {
		told = append(told, fmt.Sprintf("%s: %v", r.refused[name].what, r.refused[name].why))
		worst(ReasonRefused)
	}
	for _, name := range slices.Sorted(maps.Keys(r.sinks)) {
		if s := r.sinks[name]; s.crowded {
			told = append(told, fmt.Sprintf("%s: a proxy writes to at most %d sinks", s.what, maxSinks))
			worst(ReasonRefused)
		}
	}
	var losing []string
	for _, name := range slices.Sorted(maps.Keys(r.sinks)) {
		s := r.sinks[name]
		switch lost, problem := s.state(); {
		case problem != nil:
			told = append(told, fmt.Sprintf("%s: %v (%d lines dropped; it is tried again)", s.what, problem, lost))
			worst(ReasonFailing)
		case lost > 0:
			losing = append(losing, fmt.Sprintf("%s: it takes lines too slowly (%d dropped)", s.what, lost))
		}
	}
	if len(losing) > 0 {
		told = append(told, losing...)
		worst(ReasonLosing)
	}
	if more := len(told) - maxTold; more > 0 {
		told = append(told[:maxTold], fmt.Sprintf("and %d more", more))
	}
	return reason, strings.Join(told, "; ")
}
