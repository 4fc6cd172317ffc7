package revoke

import (
	"time"

	"github.com/meshgate/meshgate/filter/contract"
)

// Results of a filter's question.
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

// Meter records how long operations took. It must not block.
type Meter interface {
	// Introspected is called for each question of a filter. took is the time from its
	// arrival until its answer was queued. result is one of the Introspection constants.
	Introspected(result string, took time.Duration)
	// Revoked is called for each publication that revokes. took is the time from its commit
	// until no filter answered from the old state, or until the wait was given up.
	Revoked(took time.Duration, confirmed bool)
}

// unmetered is the Meter if none is configured.
type unmetered struct{}

// Introspected implements Meter.
func (unmetered) Introspected(string, time.Duration) {}

// Revoked implements Meter.
func (unmetered) Revoked(time.Duration, bool) {}

// introspected returns the result of a question.
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
