package insight

import (
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/meshgate/meshgate/controlplane/health"
	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/server"
)

// Limits of what a proxy can make the control plane keep.
const (
	// maxSubscriptions is how many streams of a proxy are remembered.
	maxSubscriptions = 2
	// maxError bounds the text of a refusal, maxVersion each string that a proxy
	// says of itself, maxDependencies how many it names; in bytes.
	maxError        = 1024
	maxVersion      = 128
	maxDependencies = 16
)

var _ server.Observer = (*Insights)(nil)

// Connected implements [server.Observer]. Open subscriptions of the proxy end: a
// proxy has one stream, and the older one is half open at best.
func (s *Insights) Connected(e server.Event) {
	at, ok := parse(e.Node)
	if !ok {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	p := s.proxy(at)
	s.keep(p)
	p.forgotten, p.returning = false, nil
	p.streams++
	now := s.now()
	if p.facts.First == nil {
		p.facts.First = now
	}
	p.facts = remembered{Certificate: p.facts.Certificate, First: p.facts.First}
	if !e.Until.IsZero() {
		until := e.Until.UTC()
		p.facts.Token = &until
	}
	for _, older := range p.subscriptions {
		if older.DisconnectTime == nil {
			older.DisconnectTime = now
		}
	}
	sub := &subscription{of: p, live: true, Subscription: Subscription{
		ID: uuid.NewString(), ControlPlaneInstanceID: s.Instance, ConnectTime: *now, Version: p.versions,
	}}
	p.add(sub)
	s.streams[stream{at, e.Stream}] = sub
	s.changed(at, p, false)
	s.tell(at)
	s.move()
}

// Told records what the agent of a node says of its proxy: what is the matter with its
// Envoy, if that serves nobody; the message of its /ready, if that is not 200; and the
// conditions that are not in order, which nobody changes any more. It is the word of the
// moment and is stored nowhere.
func (s *Insights) Told(node, trouble, notReady string, conditions []health.Condition) {
	at, ok := parse(node)
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.proxies[at]
	if !ok || p == nil || s.closed {
		return
	}
	news := s.troubled(at, p, cut(trouble, maxError))
	if notReady = cut(notReady, maxError); p.notReady != notReady {
		p.notReady, news = notReady, true
	}
	switch {
	case notReady == "":
		p.unready = nil
	case p.unready == nil:
		p.unready = s.now()
	}
	same := slices.EqualFunc(p.conditions, conditions, func(a, b health.Condition) bool {
		return a.Name == b.Name && a.State == b.State && a.Reason == b.Reason
	})
	if p.conditions = conditions; !same || news {
		s.move()
	}
}

// troubled records what is the matter with the Envoy of a node, and reports whether that is
// news. s.mu is held.
func (s *Insights) troubled(at id, p *proxy, reason string) bool {
	switch old := p.trouble; {
	case reason == "" && old == nil, old != nil && old.Reason == reason:
		return false
	case reason == "":
		p.trouble = nil
		s.Log.Info("envoy_answers_again", "node", at.node(), "after", s.Now().Sub(old.Since).Round(time.Second).String())
	case old != nil:
		p.trouble = &Trouble{Since: old.Since, Reason: reason}
	default:
		p.trouble = &Trouble{Since: *s.now(), Reason: reason}
		s.Log.Warn("envoy_away", "node", at.node(), "reason", reason)
	}
	return true
}

// ReturnTime is how long a node is awaited that was sent off to come back with a newer
// token. Agents try again after two seconds at most.
const ReturnTime = 10 * time.Second

// Disconnected implements [server.Observer]. How far the node is can still be told.
func (s *Insights) Disconnected(e server.Event) {
	last, known := s.account(e.Node)
	s.observe(e, func(at id, sub *subscription, now *time.Time) {
		p := sub.of
		delete(s.streams, stream{at, e.Stream})
		if p.streams--; p.streams == 0 {
			p.facts.Ended = cut(e.Error, maxError)
			if e.Renewed {
				s.await(p)
			}
			if known {
				p.facts.Last = last
			}
		}
		sub.live = false
		s.tell(at)
		s.move()
		if p.forgotten && p.streams == 0 {
			sub.DisconnectTime = now
			s.depart(at, p)
			return
		}
		if sub.DisconnectTime == nil {
			sub.DisconnectTime = now
			p.reopen()
			s.changed(at, p, true)
		}
	})
}

// await notes that a node comes back in a moment. s.mu is held.
func (s *Insights) await(p *proxy) {
	since := new(struct{ _ byte })
	p.returning = since
	time.AfterFunc(ReturnTime, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if p.returning == since {
			p.returning = nil
			s.move()
		}
	})
}

// reopen corrects what Connected assumed: the newer stream has ended first, and
// the older one is still there.
func (p *proxy) reopen() {
	for _, other := range slices.Backward(p.subscriptions) {
		if other.live {
			other.DisconnectTime = nil
			return
		}
	}
}

// account is how far a node is.
func (s *Insights) account(node string) (Last, bool) {
	if s.Account == nil {
		return Last{}, false
	}
	last, known := s.Account(node)
	return last.bounded(), known
}

// Sent implements [server.Observer].
func (s *Insights) Sent(e server.Event) {
	s.observe(e, func(at id, sub *subscription, now *time.Time) {
		sub.count(e.Type, now, func(c *Counters) { c.Sent++ })
		sub.of.facts.Sent = max(sub.of.facts.Sent, e.Revision)
		s.changed(at, sub.of, false)
	})
}

// Acknowledged implements [server.Observer].
func (s *Insights) Acknowledged(e server.Event) { s.count(e, func(c *Counters) { c.Acknowledged++ }) }

// Rejected implements [server.Observer].
func (s *Insights) Rejected(e server.Event) {
	s.observe(e, func(at id, sub *subscription, now *time.Time) {
		sub.count(e.Type, now, func(c *Counters) { c.Rejected++ })
		if name, _ := sub.counters(e.Type); name != "" {
			if sub.Rejected == nil {
				sub.Rejected = map[string]Nack{}
			}
			sub.Rejected[name] = Nack{Time: *now, Error: cut(e.Error, maxError)}
		}
		s.changed(at, sub.of, false)
	})
}

func (s *Insights) count(e server.Event, add func(*Counters)) {
	s.observe(e, func(at id, sub *subscription, now *time.Time) {
		sub.count(e.Type, now, add)
		s.changed(at, sub.of, false)
	})
}

// observe runs fn for the subscription of an event, if it has one.
func (s *Insights) observe(e server.Event, fn func(at id, sub *subscription, now *time.Time)) {
	at, ok := parse(e.Node)
	if !ok {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if sub := s.streams[stream{at, e.Stream}]; sub != nil && !s.closed {
		fn(at, sub, s.now())
	}
}

// proxy returns a record, a new one if need be. s.mu is held.
func (s *Insights) proxy(at id) *proxy {
	p := s.proxies[at]
	if p == nil {
		p = &proxy{}
		s.proxies[at] = p
	}
	return p
}

func (p *proxy) add(sub *subscription) {
	p.subscriptions = append(p.subscriptions, sub)
	if n := len(p.subscriptions) - maxSubscriptions; n > 0 {
		p.subscriptions = slices.Delete(p.subscriptions, 0, n)
	}
}

func (sub *subscription) count(t resource.TypeURL, now *time.Time, add func(*Counters)) {
	add(&sub.Status.Total)
	if _, c := sub.counters(t); c != nil {
		add(c)
	}
	sub.Status.LastUpdateTime = now
}

// counters returns the name of a type and its counters, which secrets lack.
func (sub *subscription) counters(t resource.TypeURL) (string, *Counters) {
	switch t {
	case resource.Cluster:
		return "cds", &sub.Status.CDS
	case resource.Endpoint:
		return "eds", &sub.Status.EDS
	case resource.Listener:
		return "lds", &sub.Status.LDS
	case resource.Route:
		return "rds", &sub.Status.RDS
	case resource.Secret:
		return "sds", nil
	}
	return "", nil
}
