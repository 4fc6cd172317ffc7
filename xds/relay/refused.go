package relay

import (
	"context"
	"errors"
	"maps"

	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/snapshot"
)

// errRefusedGood ends a stream of a relay whose Envoy refuses a listener that an Envoy
// before it has taken, such as for a port that was taken meanwhile. On the next one it
// is not said to be here: it is sent again and, if it is refused again, the control
// plane hears of that.
var errRefusedGood = errors.New("the proxy refused what an earlier one had confirmed")

// Refused are the listeners that Envoy lacks because it refused them, with its words.
// One of which it holds an earlier version is not among them. Nobody can connect to a
// listener that is not there, whatever else the proxy serves.
func (r *Relay) Refused() map[string]string {
	settled := r.settled()
	standing := r.local.Rejections(r.cfg.Node)
	r.mu.Lock()
	defer r.mu.Unlock()
	out := maps.Clone(r.refused)
	for _, x := range standing {
		for _, name := range blamedListeners(x) {
			now, good := r.current[resource.Listener][name], r.good[resource.Listener][name]
			if now != nil && (good == nil || now == good && settled) {
				out[name] = x.Error
			}
		}
	}
	return out
}

// settled reports whether Envoy has answered all that it is served. Before that, a
// refusal may be of something in whose place the version before it is on its way.
func (r *Relay) settled() bool { return answered(r.local.Progress(snapshot.Newest)) }

func blamedListeners(x snapshot.Rejection) []string {
	if x.Type != resource.Listener {
		return nil
	}
	return blamed(x.Error, x.Resources)
}

// Whole returns nil once Envoy has answered what it is served at the moment of the
// call, and lacks no listener. It calls told with those that it lacks, each time they
// are others.
func (r *Relay) Whole(ctx context.Context, told func(refused map[string]string)) error {
	r.local.Wait(ctx, r.local.Progress(snapshot.Newest).Published)
	var before map[string]string
	for ctx.Err() == nil {
		moved, turned := r.local.Moved(), r.turns()
		now := r.Refused()
		if len(now) == 0 {
			return nil
		}
		if !maps.Equal(before, now) {
			before = now
			told(now)
		}
		select {
		case <-moved:
		case <-turned:
		case <-ctx.Done():
		}
	}
	return ctx.Err()
}

// turns returns a channel that is closed at the next change of r.refused.
func (r *Relay) turns() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.turned
}

// refuse notes that Envoy lacks a listener, or with an empty text that it does not.
func (r *Relay) refuse(name, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refused[name] == text {
		return
	}
	if r.refused[name] = text; text == "" {
		delete(r.refused, name)
	}
	close(r.turned)
	r.turned = make(chan struct{})
}

// told is what the control plane hears of a type on reconnecting. A listener that Envoy
// refused may have been removed meanwhile, of which only those that are told hear.
func (r *Relay) told(url resource.TypeURL) map[string]string {
	out := versions(r.current, r.good, url)
	if url == resource.Listener {
		for name := range r.refused {
			out[name] = unconfirmed
		}
	}
	return out
}

// disown drops the listeners that Envoy refuses although they count as good, so that
// the control plane hears of it, and reports whether there are any.
func (r *Relay) disown(open []pending) bool {
	if !r.settled() {
		return false
	}
	var found []string
	for _, x := range r.local.Rejections(r.cfg.Node) {
	names:
		for _, name := range blamedListeners(x) {
			now := r.current[resource.Listener][name]
			if now == nil || now != r.good[resource.Listener][name] {
				continue
			}
			for _, p := range open {
				if p.typ == x.Type && p.adds([]string{name}) {
					continue names // it is judged with that response
				}
			}
			r.locked(func() {
				r.current.drop(x.Type, name)
				r.good.drop(x.Type, name)
			})
			r.refuse(name, x.Error)
			found = append(found, name)
		}
	}
	if len(found) > 0 {
		r.publish()
		r.save(record(resource.Listener, nil, found))
	}
	return len(found) > 0
}

// locked changes the tables, which others than the goroutine of the upstream half read.
func (r *Relay) locked(change func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change()
}
