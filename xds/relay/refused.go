package relay

import (
	"context"
	"errors"
	"maps"

	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/scraping"
	"github.com/meshgate/meshgate/xds/server"
	"github.com/meshgate/meshgate/xds/snapshot"
)

// errRefusedGood ends a stream because Envoy refuses a listener that was confirmed earlier,
// for example since another process now uses its port. On the next stream, the relay does not
// list the listener. So the control plane sends it again and, if Envoy refuses it again,
// learns of the refusal.
var errRefusedGood = errors.New("the proxy refused what an earlier one had confirmed")

// Refused returns the listeners that Envoy lacks because it refused them, with its reasons. It
// omits a listener of which Envoy has an earlier version. Nobody can connect to a missing
// listener, whatever else the proxy serves. It also omits the one of the metrics, without which a
// proxy serves its callers all the same; only the control plane hears of that.
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
	delete(out, scraping.Listener)
	return out
}

// ErrUnanswered says that Envoy has not answered yet.
var ErrUnanswered = errors.New("envoy has not answered yet")

// Lacks returns nil if Envoy has a listener, in whichever version, and otherwise why it does not.
// It is [ErrUnanswered] if Envoy is about to say.
func (r *Relay) Lacks(listener string) error {
	if text, refused := r.Refused()[listener]; refused {
		return errors.New(text)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.good[resource.Listener][listener] != nil:
		return nil
	case r.current[resource.Listener][listener] != nil:
		return ErrUnanswered
	}
	return errors.New("the control plane has sent none")
}

// settled reports whether Envoy has answered everything that it is served. Until then, a
// refusal may be of a version that the previous version is about to replace again.
func (r *Relay) settled() bool { return answered(r.local.Progress(snapshot.Newest)) }

func blamedListeners(x snapshot.Rejection) []string {
	if x.Type != resource.Listener {
		return nil
	}
	return server.Meant(x.Error, x.Resources)
}

// Whole returns nil once Envoy has answered what was published at the time of the call and
// lacks no listener. Whenever the set of missing listeners changes, Whole calls told with it.
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

// refuse notes that Envoy lacks a listener. An empty text means that it no longer does.
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

// told returns what the relay tells the control plane about a type on reconnecting. It
// includes refused listeners: if one was removed meanwhile, the control plane reports the
// removal only to a client that has named it.
func (r *Relay) told(url resource.TypeURL) map[string]string {
	out := versions(r.current, r.good, url)
	if url == resource.Listener {
		for name := range r.refused {
			out[name] = unconfirmed
		}
	}
	return out
}

// disown drops the listeners that Envoy refuses although they were confirmed, so that the
// control plane learns of it. It reports whether there were any.
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

// locked changes the tables, which other goroutines read.
func (r *Relay) locked(change func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change()
}
