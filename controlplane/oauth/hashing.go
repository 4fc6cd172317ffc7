package oauth

import (
	"context"
	"runtime"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/gateway"
)

// maxWaiting bounds the requests that wait for their secret to be hashed. At
// some milliseconds each, whoever is last among them waits for about a second.
const maxWaiting = 128

// hashing bounds how many secrets are hashed at the same time. Each costs ten
// thousand rounds of PBKDF2, anybody may ask for it, and the same process
// configures proxies: whatever is asked, some of its processors stay free.
type hashing struct {
	// running holds an entry for each that is being hashed, places one for each
	// of those and of the waiting.
	running, places chan struct{}
}

func newHashing() *hashing { return sizedHashing(max(1, runtime.GOMAXPROCS(0)/2)) }

func sizedHashing(n int) *hashing {
	return &hashing{running: make(chan struct{}, n), places: make(chan struct{}, n+maxWaiting)}
}

// enter waits for its turn; leave must follow. Its errors are [errBusy], if too
// many wait already, and Unavailable if ctx ends.
func (h *hashing) enter(ctx context.Context) error {
	select {
	case h.places <- struct{}{}:
	default:
		return errBusy
	}
	select {
	case h.running <- struct{}{}:
		return nil
	case <-ctx.Done():
		<-h.places
		return fault.Wrap(fault.Unavailable, ctx.Err(), "wait for a secret to be hashed")
	}
}

// tryEnter enters if nobody is in the way; leave must follow if it has.
func (h *hashing) tryEnter() bool {
	select {
	case h.places <- struct{}{}:
	default:
		return false
	}
	select {
	case h.running <- struct{}{}:
		return true
	default:
		<-h.places
		return false
	}
}

func (h *hashing) leave() {
	<-h.running
	<-h.places
}

// fits reports whether a secret is one of the two of an application.
func (h *hashing) fits(ctx context.Context, app *gateway.Application, secret string) (bool, error) {
	first, _ := gateway.Hashed(app.ClientSecret)
	second, _ := gateway.Hashed(app.SecondarySecret)
	if first || second {
		if err := h.enter(ctx); err != nil {
			return false, err
		}
		defer h.leave()
	}
	return gateway.VerifySecret(app.ClientSecret, secret) || gateway.VerifySecret(app.SecondarySecret, secret), nil
}
