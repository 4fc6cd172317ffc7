package server

import (
	"slices"
	"strconv"

	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/snapshot"
)

// session is what one stream knows about its proxy. It is a state machine without I/O, used by
// one goroutine: receive takes requests, and next returns responses. Nothing of it outlives
// the stream, because two streams of one node are normal and a returning proxy itself tells
// what it has.
type session struct {
	node   string
	sotw   bool
	limits Limits

	state   snapshot.State
	types   map[resource.TypeURL]*typed
	secrets map[string]issued // made for this stream, by name
	diffs   *diffs            // shared by the streams of a server
	// quiet holds the tables for which no listener awaits routes.
	quiet quiet
	seq   uint64 // of the last response
	// strangers are the requested types that are not served here. unanswered are the empty
	// answers to them that are still due.
	strangers  map[resource.TypeURL]struct{}
	unanswered []*response
	// flushed are states that were sent completely but are not confirmed yet, each with the
	// sequence number of its last response.
	flushed []flush
	// searched is the newest state of which refused responses were divided, and searchLeft how
	// many responses more that may cause.
	searched   uint64
	searchLeft int
	// turnedDown are the answers that the server gave itself, until the stream takes them.
	turnedDown []*answer
}

// issued is a secret in force on a stream, with the generation that it was made for.
type issued struct {
	resource   *resource.Resource
	generation string
}

// quiet remembers a pair of tables in which awaited found nothing.
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
	// named is the total length in bytes of names; brought is that of the names and versions
	// that the proxy said it has.
	named, brought int
	// known is what the proxy has, or will have once it answers. A name that was subscribed
	// again is absent until it is sent.
	known map[string]held
	// due are assignments to send again although their bytes are the same: their cluster was
	// sent, and it warms until an assignment comes after it.
	due map[string]struct{}
	// refused are the responses that the proxy did not accept. They are not sent again before
	// the content of one of their names changes.
	refused []*refusal
	// retried are refused responses whose content is sent again. They stand until the proxy
	// has answered, because it may refuse them once more.
	retried []*refusal
	out     []*response
	// aparts are parts of refused responses that are sent one by one.
	aparts []*apart
	// walk is set while any name may need to be sent or removed. Every change of the
	// subscription, or of more than a few names at the proxy, sets it. While it is not set,
	// only the names in moved may need anything.
	walk  bool
	moved map[string]struct{}
	// alone is set while removals may not go along with additions; sending removals clears it.
	alone bool
	// full is set when the proxy waits for a response even if it has no content.
	full bool
	// accepted is the version that a returning state-of-the-world proxy sent.
	accepted string
}

// held is one resource at the proxy. The resource itself is kept for the state-of-the-world
// variant, which repeats resources that are not removed yet.
type held struct {
	version  string
	resource *resource.Resource
}

// refusedVersion marks a name that the proxy refused and that is sent again. The proxy may
// have an older version, nothing, or a resource that was to be removed.
const refusedVersion = "refused"

// response is one message that is not answered yet.
type response struct {
	typ     resource.TypeURL
	nonce   string
	seq     uint64
	state   snapshot.State
	add     []*resource.Resource
	remove  []string
	version string // of the whole vector, state-of-the-world only
	// apart is the part of a refused response that this is, if it is one.
	apart *apart
	// frees says that the response removes or changes listeners, which may free addresses.
	frees bool
}

// refusal remembers the content of a refused response. The proxy may have applied a part of
// it, which is corrected or removed later.
type refusal struct {
	versions map[string]string // name -> refused version, "" for a removal
	revision uint64            // the oldest revision that may be part of it
	text     string
	bytes    int // length of the names at the time of the refusal
	// unsent says that the server itself refused: the proxy was never asked.
	unsent bool
}

func newSession(node string, sotw bool, limits Limits, d *diffs) *session {
	s := &session{
		node: node, sotw: sotw, limits: limits, diffs: d,
		types:   map[resource.TypeURL]*typed{},
		secrets: map[string]issued{}, searchLeft: maxApart,
	}
	for _, t := range resource.Types {
		s.types[t] = &typed{
			url: t, names: map[string]struct{}{}, known: map[string]held{}, due: map[string]struct{}{},
			walk: true, moved: map[string]struct{}{},
		}
	}
	return s
}

// want returns what the proxy should have under a name that it subscribes to, or nil. A set
// may contain the bytes of secrets, as on a relay; otherwise they are made for the stream. An
// assignment that was subscribed by name always exists, even if empty: without one, its
// cluster would warm until a timeout.
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

// each calls f with every name of a type that the proxy may be subscribed to. A name may come
// twice.
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

// wanted lists everything that the proxy should have, in no order.
func (s *session) wanted(t *typed) []*resource.Resource {
	var out []*resource.Resource
	s.each(t, func(name string) {
		if r := s.want(t, name); r != nil {
			out = append(out, r)
		}
	})
	return out
}

// missing lists secrets that the proxy waits for and that are not made yet, or only for
// another generation. The secret of another generation stays in force meanwhile.
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

// emit numbers a response and records it as sent.
func (s *session) emit(t *typed, r *response) *response {
	s.seq++
	r.typ, r.seq, r.state = t.url, s.seq, s.state
	r.nonce = strconv.FormatUint(s.seq, 10)
	r.frees = s.frees(t, r) || r.apart != nil && r.apart.frees
	for _, a := range r.add {
		t.known[a.Name] = held{version: a.Version, resource: a}
		delete(t.due, a.Name)
		t.forgive(a.Name)
		t.went(a.Name)
	}
	for _, name := range r.remove {
		delete(t.known, name)
		t.forgive(name)
	}
	t.out = append(t.out, r)
	return r
}

// frees reports whether a response may free the address of a listener. It is always false in
// the state-of-the-world variant, whose vectors repeat refused listeners anyway.
func (s *session) frees(t *typed, r *response) bool {
	return t.url == resource.Listener && !s.sotw && (len(r.remove) > 0 || slices.ContainsFunc(r.add, func(a *resource.Resource) bool {
		k, ok := t.known[a.Name]
		return ok && k.version != refusedVersion
	}))
}

// forgive removes a name from the refusals, because a new version is on its way.
func (t *typed) forgive(name string) {
	t.refused = slices.DeleteFunc(t.refused, func(f *refusal) bool {
		delete(f.versions, name)
		return len(f.versions) == 0
	})
}

// accept takes a secret that was made or pushed, and reports whether it took it. A secret that
// was made for another generation than the set's is useless; it is asked for again. A push
// renews the secret in force if it was made for the same generation, or for the generation of
// the set. A late push that was made for older tags must not replace a newer secret. A push
// that arrives while a secret is being made is the newer one. It is taken even if no secret is
// in force yet, because nobody pushes it again.
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

// asksFor reports whether the proxy is subscribed to a secret. A secret that is not subscribed
// is made when it is, and is then newer than any earlier push.
func (s *session) asksFor(secret string) bool {
	t := s.types[resource.Secret]
	_, named := t.names[secret]
	return named || t.wildcard
}
