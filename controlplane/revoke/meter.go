package revoke

import (
	"time"

	"github.com/meshgate/meshgate/filter/contract"
)

// What became of the question of a filter.
const (
	IntrospectionFound   = "found"
	IntrospectionUnknown = "unknown"
	// IntrospectionRefused is the answer to a node that may not ask about the plugin.
	IntrospectionRefused = "refused"
	// IntrospectionFailed says that the store could not be read.
	IntrospectionFailed = "failed"
	// IntrospectionShed says that the node asked more at once than it may.
	IntrospectionShed = "shed"
)

// Meter is told how long things took. It must not block.
type Meter interface {
	// Introspected is told of each question of a filter, from its arrival until its
	// answer was queued; result is one of the Introspection constants.
	Introspected(result string, took time.Duration)
	// Revoked is told of each publication that revokes, from its commit until no
	// filter answered from the state before, or until that was given up.
	Revoked(took time.Duration, confirmed bool)
}

// unmetered takes the place of a meter that is not there.
type unmetered struct{}

// Introspected implements Meter.
func (unmetered) Introspected(string, time.Duration) {}

// Revoked implements Meter.
func (unmetered) Revoked(time.Duration, bool) {}

// introspected is what became of a question.
func introspected(res *contract.Result, allowed bool) string {
	switch {
	case !allowed:
		return IntrospectionRefused
	case res.Answer == contract.Found:
		return IntrospectionFound
	case res.Answer == contract.Unavailable:
		return IntrospectionFailed
	}
	return IntrospectionUnknown // whatever the reason
}
