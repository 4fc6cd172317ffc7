package relay

import (
	"context"
	"errors"
	"sync"

	"github.com/meshgate/meshgate/xds/resource"
)

// errJudgedAgain ends an attempt because what the machine permits has changed. On the next one, the
// relay does not list what it has taken from Envoy, nor what it had refused: the control plane sends
// both again, and learns what becomes of them.
var errJudgedAgain = errors.New("the machine permits something else now")

// JudgeAgain makes the relay judge what Envoy is served once more, after what [Config.Machine]
// permits has changed. What is not permitted any more is taken from Envoy and from the disk, even
// while the control plane cannot be reached.
func (r *Relay) JudgeAgain() {
	select {
	case r.judging <- struct{}{}:
	default: // it is due already
	}
}

// interrupted makes an attempt that ends when there is something to judge, and judges it then.
func (r *Relay) interrupted(ctx context.Context) (heard, judged bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-r.judging:
			judged = true // also if the attempt has ended by itself meanwhile
			cancel(errJudgedAgain)
		case <-ctx.Done():
		}
	})
	heard, err = r.attempt(ctx)
	cancel(nil)
	watch.Wait()
	if judged {
		r.judge()
		err = errJudgedAgain
	}
	return heard, judged, err
}

// judge keeps of both tables what is permitted. If the newest version of a resource is not, the one
// that Envoy has confirmed takes its place.
func (r *Relay) judge() {
	for _, x := range r.good.all() {
		own, why := r.permitted(x)
		if r.current[x.Type][x.Name] == x {
			r.judged(x, own, why)
		}
		r.locked(func() { r.good.replace(x, own) })
	}
	for _, x := range r.current.all() {
		last := r.good[x.Type][x.Name]
		if x == last {
			continue
		}
		own, why := r.permitted(x)
		if own == nil {
			own = last
		}
		r.judged(x, own, why)
	}
	r.publish()
	r.cache.whole = false // the file is written anew, without what must not be in it
	r.save()
	r.tellSecrets()
	r.tell()
}

// judged serves Envoy own instead of x, or nothing if it is nil.
func (r *Relay) judged(x, own *resource.Resource, why string) {
	r.locked(func() { r.current.replace(x, own) })
	if own == nil && x.Type == resource.Listener {
		r.refuse(x.Name, why)
	}
}

// permitted returns x itself or what this machine accepts of it; or nil, and why.
func (r *Relay) permitted(x *resource.Resource) (own *resource.Resource, why string) {
	own, err := r.admit(x.Type, x.Name, x.Version, x.Body)
	switch {
	case err != nil:
		return nil, err.Error()
	case own.Version == x.Version:
		return x, ""
	}
	return own, ""
}
