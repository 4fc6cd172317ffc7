package server

import (
	"cmp"
	"slices"

	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/snapshot"
)

// removals is the order in which removed resources are sent. No answer needs to be awaited in
// between: routes are changed before their clusters are removed.
var removals = []resource.TypeURL{
	resource.Listener, resource.Cluster, resource.Endpoint, resource.Route, resource.Secret,
}

// next returns the next response to send, or nil if there is nothing to send now. Additions of
// all types come first, in dependency order. Removals follow when no addition is left, except
// that those of listeners go along with additions of listeners. Listeners and routes wait
// while clusters or assignments are held up, because they may refer to them.
func (s *session) next() *response {
	if r := s.stranger(); r != nil {
		return r
	}
	held := false
	for _, url := range resource.Types {
		t := s.types[url]
		if !t.asked || t.still() && !t.full || (held && (url == resource.Listener || url == resource.Route)) {
			continue
		}
		adds := s.sendable(t, s.pending(t))
		if len(adds) == 0 && !t.full {
			continue
		}
		if len(t.out) >= s.window(url) {
			held = true
			continue
		}
		return s.add(t, adds)
	}
	if held {
		return nil
	}
	return s.nextRemoval()
}

func (s *session) nextRemoval() *response {
	held := false
	for _, url := range removals {
		t := s.types[url]
		if !t.asked || t.still() {
			continue
		}
		gone := s.gone(t)
		if len(gone) == 0 {
			t.rest() // nothing was to be added either, else this line is not reached
			continue
		}
		if len(t.out) >= s.window(url) {
			held = true
			continue
		}
		if r := s.remove(t, gone); r != nil {
			return r
		}
	}
	if !held && s.complete() {
		s.flush()
	}
	return nil
}

// pending lists the resources that the proxy should have but lacks, or has in another version,
// ordered by name.
func (s *session) pending(t *typed) []*resource.Resource {
	var out []*resource.Resource
	look := func(name string) {
		if r := s.lacking(t, name); r != nil {
			out = append(out, r)
		}
	}
	if t.walk {
		s.each(t, look)
		for name := range t.due {
			look(name)
		}
	}
	for name := range t.moved {
		look(name)
	}
	slices.SortFunc(out, func(a, b *resource.Resource) int { return cmp.Compare(a.Name, b.Name) })
	return slices.CompactFunc(out, func(a, b *resource.Resource) bool { return a.Name == b.Name })
}

// lacking returns the resource to send under a name, or nil. If an assignment is empty because
// it left the set, it counts as a removal: sent earlier, it would make requests fail while
// routes still use its cluster.
func (s *session) lacking(t *typed, name string) *resource.Resource {
	_, named := t.names[name]
	_, due := t.due[name]
	inSet := s.state.Set.Get(t.url, name)
	if !named && !t.wildcard {
		if due {
			return inSet
		}
		return nil
	}
	want := inSet
	if want == nil && (t.url == resource.Secret || !t.wildcard) {
		want = s.want(t, name)
	}
	if want == nil {
		return nil
	}
	k, ok := t.known[name]
	vanished := ok && t.url == resource.Endpoint && inSet == nil
	if due || !ok || (k.version != want.Version && !vanished) {
		return want
	}
	return nil
}

// gone lists the names that the proxy has but should not have, in order.
func (s *session) gone(t *typed) []string {
	var out []string
	if t.walk {
		for name := range t.known {
			if s.leftover(t, name) {
				out = append(out, name)
			}
		}
	}
	for name := range t.moved {
		if s.leftover(t, name) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// leftover reports whether a name is to be removed from the proxy.
func (s *session) leftover(t *typed, name string) bool {
	k, known := t.known[name]
	if !known {
		return false
	}
	_, named := t.names[name]
	want := s.want(t, name)
	switch {
	case want != nil && want.Version == k.version:
	case t.url == resource.Secret && s.state.Set.AllowsSecret(name): // it is being made
	case want == nil && !named && !t.wildcard:
		delete(t.known, name) // it was sent along with its cluster and never subscribed
	case want == nil || s.state.Set.Get(t.url, name) == nil && t.url == resource.Endpoint:
		return true
	}
	return false
}

func (s *session) add(t *typed, adds []*resource.Resource) *response {
	t.full = false
	if s.vector(t) {
		return s.addVector(t)
	}
	adds, part := t.turn(adds)
	r := s.emit(t, &response{add: s.bounded(adds), remove: s.givingWay(t), apart: part})
	if t.url == resource.Cluster {
		s.accompany(r.add)
	}
	return r
}

// givingWay lists the listeners that are removed in the same response as additions. A proxy
// removes before it adds, so a new listener can take the address of a removed one. If the
// removal came in a later response, the address would still be in use.
func (s *session) givingWay(t *typed) []string {
	if t.url != resource.Listener || t.alone {
		return nil
	}
	return s.gone(t)
}

// bounded cuts a list so that the message stays near the limit of bytes.
func (s *session) bounded(rs []*resource.Resource) []*resource.Resource {
	size := 0
	for i, r := range rs {
		size += len(r.Body) + len(r.Name) + len(r.Version) + len(r.Type) + 32
		if size > s.limits.MessageBytes && i > 0 {
			return rs[:i]
		}
	}
	return rs
}

// accompany makes the assignments of clusters follow the clusters. A changed cluster warms
// until an assignment arrives after it, and its proxy does not ask again. The proxy does ask
// for the assignment of a new cluster, but routes that name the cluster must not arrive before
// its endpoints. An assignment has the name of its cluster. If it enters the set later, as on
// a relay, it is sent then, still before routes.
//
// A proxy that subscribes to all assignments is a relay: it has them and does this itself. A
// returning proxy asks for assignments only after it has received clusters; they are due all
// the same.
func (s *session) accompany(clusters []*resource.Resource) {
	t := s.types[resource.Endpoint]
	if t.wildcard {
		return
	}
	for _, c := range clusters {
		t.due[c.Name] = struct{}{}
		t.touch(c.Name)
	}
}

// remove sends removals. Assignments that were subscribed by name are sent empty, because
// their removal has no effect. If their cluster is removed too, they need nothing. In the
// state-of-the-world variant only clusters and listeners can be removed.
func (s *session) remove(t *typed, gone []string) *response {
	t.alone = false
	if t.url == resource.Cluster {
		s.disown(gone)
	}
	if t.url == resource.Endpoint && !t.wildcard {
		empty := make([]*resource.Resource, 0, len(gone))
		for _, name := range gone {
			empty = append(empty, resource.Empty(name))
		}
		return s.emit(t, &response{add: s.bounded(empty)})
	}
	switch {
	case s.vector(t):
		for _, name := range gone {
			delete(t.known, name)
			t.forgive(name)
		}
		return s.addVector(t)
	case s.sotw:
		for _, name := range gone {
			delete(t.known, name)
			t.forgive(name)
		}
		return nil
	}
	return s.emit(t, &response{remove: gone})
}

// disown records the assignments of removed clusters as empty.
func (s *session) disown(clusters []string) {
	t := s.types[resource.Endpoint]
	if t.wildcard {
		return
	}
	t.touch(clusters...)
	for _, name := range clusters {
		delete(t.due, name)
		if _, ok := t.known[name]; ok && s.state.Set.Get(resource.Endpoint, name) == nil {
			empty := resource.Empty(name)
			t.known[name] = held{version: empty.Version, resource: empty}
		}
	}
}

// complete reports whether a confirmation would mean that the proxy has everything in the set
// that it will ask for. A proxy asks for listeners only when its clusters are warm, so a proxy
// that has not asked yet is not complete.
func (s *session) complete() bool {
	for _, url := range []resource.TypeURL{resource.Cluster, resource.Listener} {
		if !s.types[url].asked && s.state.Set.Len(url) > 0 {
			return false
		}
	}
	return len(s.missing()) == 0 && !s.awaited()
}

// awaited reports whether a listener names a route table that the proxy has not asked for yet.
// The proxy accepts a listener at once but listens only when it has the routes. It does not
// ask for the routes of a listener that it refused.
func (s *session) awaited() bool {
	listeners, routes := s.types[resource.Listener], s.types[resource.Route]
	if !listeners.asked || len(listeners.refused) > 0 || routes.wildcard {
		return false
	}
	now := quiet{true, s.state.Set.Table(resource.Listener), s.state.Set.Table(resource.Route)}
	if s.quiet == now {
		return false
	}
	for l := range s.state.Set.Each(resource.Listener) {
		for _, name := range l.Routes {
			if _, named := routes.names[name]; !named && s.state.Set.Get(resource.Route, name) != nil {
				return true
			}
		}
	}
	s.quiet = now
	return false
}

// flush notes that everything in the current state has been sent.
func (s *session) flush() {
	f := flush{state: s.state, seq: s.seq}
	if k := len(s.flushed); k > 0 && (s.flushed[k-1].seq == f.seq || k >= maxFlushes) {
		s.flushed[k-1] = f
		return
	}
	s.flushed = append(s.flushed, f)
}

// confirmed returns the newest state of which every response was answered.
func (s *session) confirmed() (snapshot.State, bool) {
	oldest := s.seq + 1
	for _, t := range s.types {
		if len(t.out) > 0 {
			oldest = min(oldest, t.out[0].seq)
		}
	}
	var st snapshot.State
	found := false
	for len(s.flushed) > 0 && s.flushed[0].seq < oldest {
		st, found = s.flushed[0].state, true
		s.flushed = s.flushed[1:]
	}
	return st, found
}

// window returns how many responses of a type may be unanswered. A proxy withholds its answer
// to clusters until they are warm, and for that it may need further responses.
func (s *session) window(t resource.TypeURL) int {
	if t == resource.Cluster {
		return s.limits.ClusterWindow
	}
	return s.limits.Window
}
