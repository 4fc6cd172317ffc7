package server

import (
	"slices"
	"strconv"

	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/snapshot"
)

// session is what one stream knows about its proxy. It is a state machine
// without I/O, used by one goroutine: requests go in, responses come out of
// next. Nothing of it outlives the stream, for two streams of one node are
// normal and a returning proxy tells by itself what it has.
type session struct {
	node   string
	sotw   bool
	limits Limits

	state   snapshot.State
	types   map[resource.TypeURL]*typed
	secrets map[string]issued // made for this stream, by name
	diffs   *diffs            // shared by the streams of a server
	// quiet are the tables for which no listener was found to await routes.
	quiet quiet
	seq   uint64 // of the last response
	// strangers are types that are not served here and were asked for, and
	// unanswered are the answers without resources that are still due.
	strangers  map[resource.TypeURL]struct{}
	unanswered []*response
	// flushed are readings of which everything was sent, each with the sequence
	// number of its last response, until they are confirmed.
	flushed []flush
}

// issued is a secret in force on a stream and the generation it was made for.
type issued struct {
	resource   *resource.Resource
	generation string
}

// quiet remembers a reading of two tables that awaited found nothing in.
type quiet struct {
	valid             bool
	listeners, routes *resource.Table
}

type flush struct {
	state snapshot.State
	seq   uint64
}

// typed is the state of one type on one stream.
type typed struct {
	url      resource.TypeURL
	asked    bool // a request of this type has arrived
	wildcard bool
	names    map[string]struct{} // subscribed by name
	// named is the length of names in bytes, brought that of what the proxy said it has.
	named, brought int
	// known is what the proxy has, or will have once it answers; a name whose
	// state is uncertain is absent.
	known map[string]held
	// due are assignments to send again although their bytes are the same:
	// their cluster was sent, and warms until an assignment comes after it.
	due map[string]struct{}
	// refused are responses that the proxy did not accept, and which are not
	// sent again before the content of one of their names changes.
	refused []*refusal
	// retried are refused responses whose content is sent again. They stand until the
	// proxy has answered: it may refuse it once more.
	retried []*refusal
	out     []*response
	// walk is set while every name may be due for sending or removal: all that
	// changes the subscription, or what the proxy has beyond a few names, sets
	// it. While it is not set, only the names in moved may be.
	walk  bool
	moved map[string]struct{}
	// alone is set until removals have been sent, if they may not go along with
	// additions.
	alone bool
	// full is set when a state-of-the-world proxy needs the whole vector.
	full bool
	// accepted is the version a state-of-the-world proxy brought along.
	accepted string
}

// held is one resource at the proxy. The resource itself is kept for the
// state-of-the-world variant, which repeats what it does not remove yet.
type held struct {
	version  string
	resource *resource.Resource
}

// refusedVersion stands for what the proxy has of a name that it refused and that is sent
// again: an older version, nothing, or what was to be removed.
const refusedVersion = "refused"

// response is one message on its way, or not answered yet.
type response struct {
	typ     resource.TypeURL
	nonce   string
	seq     uint64
	state   snapshot.State
	add     []*resource.Resource
	remove  []string
	version string // of the whole vector, state-of-the-world only
	// frees says that it removes or changes listeners, which may free addresses.
	frees bool
}

// refusal remembers what a refused response contained, since the proxy may have
// applied a part of it: it is corrected or removed later.
type refusal struct {
	versions map[string]string // name -> refused version, "" for a removal
	revision uint64            // the oldest that may be part of it
	text     string
	bytes    int // of the names, when it was refused
}

func newSession(node string, sotw bool, limits Limits, d *diffs) *session {
	s := &session{
		node: node, sotw: sotw, limits: limits, diffs: d,
		types:   map[resource.TypeURL]*typed{},
		secrets: map[string]issued{},
	}
	for _, t := range resource.Types {
		s.types[t] = &typed{
			url: t, names: map[string]struct{}{}, known: map[string]held{}, due: map[string]struct{}{},
			walk: true, moved: map[string]struct{}{},
		}
	}
	return s
}

// want returns what the proxy should have under a name it subscribes to, nil if
// nothing. A set may hold the bytes of secrets itself, as on a relay; else they
// are made for the stream. An assignment asked for by name always exists, if empty: without one
// its cluster would warm until a timeout.
func (s *session) want(t *typed, name string) *resource.Resource {
	if r := s.state.Set.Get(t.url, name); r != nil {
		return r
	}
	if t.url == resource.Secret && s.state.Set.AllowsSecret(name) {
		return s.secrets[name].resource
	}
	if _, named := t.names[name]; named && t.url == resource.Endpoint {
		return resource.Empty(name)
	}
	return nil
}

// each calls f with the names that a proxy may be subscribed to and that exist,
// of a type; a name may come twice.
func (s *session) each(t *typed, f func(name string)) {
	if !t.wildcard {
		for name := range t.names {
			f(name)
		}
		return
	}
	for r := range s.state.Set.Each(t.url) {
		f(r.Name)
	}
	if t.url == resource.Secret {
		for name := range s.secrets {
			f(name)
		}
	}
}

// wanted lists everything the proxy should have, in no order.
func (s *session) wanted(t *typed) []*resource.Resource {
	var out []*resource.Resource
	s.each(t, func(name string) {
		if r := s.want(t, name); r != nil {
			out = append(out, r)
		}
	})
	return out
}

// missing lists secrets that the proxy waits for and that are not made yet, or
// only for another generation; such a one stays in force meanwhile.
func (s *session) missing() []string {
	t := s.types[resource.Secret]
	names := s.state.Set.Secrets()
	return slices.DeleteFunc(names, func(n string) bool {
		return s.current(n) || s.state.Set.Get(t.url, n) != nil || !s.asksFor(n)
	})
}

// current reports whether a secret was made for the generation of the set.
func (s *session) current(name string) bool {
	have, made := s.secrets[name]
	generation, _ := s.state.Set.Generation(name)
	return made && have.generation == generation
}

// emit numbers a response and takes it as sent.
func (s *session) emit(t *typed, r *response) *response {
	s.seq++
	r.typ, r.seq, r.state = t.url, s.seq, s.state
	r.nonce = strconv.FormatUint(s.seq, 10)
	r.frees = s.frees(t, r)
	for _, a := range r.add {
		t.known[a.Name] = held{version: a.Version, resource: a}
		delete(t.due, a.Name)
		t.forgive(a.Name)
	}
	for _, name := range r.remove {
		delete(t.known, name)
		t.forgive(name)
	}
	t.out = append(t.out, r)
	return r
}

// frees reports whether a response may free the address of a listener. The vectors
// of the state-of-the-world variant hold what was refused each time anyway.
func (s *session) frees(t *typed, r *response) bool {
	return t.url == resource.Listener && !s.sotw && (len(r.remove) > 0 || slices.ContainsFunc(r.add, func(a *resource.Resource) bool {
		k, ok := t.known[a.Name]
		return ok && k.version != refusedVersion
	}))
}

// forgive drops a name from what was refused: a new version is on its way.
func (t *typed) forgive(name string) {
	t.refused = slices.DeleteFunc(t.refused, func(f *refusal) bool {
		delete(f.versions, name)
		return len(f.versions) == 0
	})
}

// accept takes over a secret that was made or pushed. What was made for another
// generation than the set's is of no use: it is asked for again. A push renews what
// is in force, if it was made for the same generation or already for that of the
// set: one that was made for older tags and arrives late must not come back. One
// that was pushed while another was made is newer, be it that nothing is in force yet:
// who pushes does so once. It reports whether it took the secret.
func (s *session) accept(m made) bool {
	generation, allowed := s.state.Set.Generation(m.name)
	have, made := s.secrets[m.name]
	current := m.generation == generation
	take := current && (!made || have.generation != generation)
	if m.job == nil {
		take = made && (current || m.generation == have.generation) || current && s.asksFor(m.name)
	}
	if !allowed || !take {
		return false
	}
	s.secrets[m.name] = issued{m.resource, m.generation}
	return true
}

// asksFor reports whether the proxy is subscribed to a secret. What nobody asks for is
// made when somebody does, and is then newer than whatever was pushed before.
func (s *session) asksFor(secret string) bool {
	t := s.types[resource.Secret]
	_, named := t.names[secret]
	return named || t.wildcard
}
