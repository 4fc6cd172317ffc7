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
	secrets map[string]*resource.Resource // made for this stream, by name
	seq     uint64                        // of the last response
	// flushed are readings of which everything was sent, each with the sequence
	// number of its last response, until they are confirmed.
	flushed []flush
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
	// known is what the proxy has, or will have once it answers; a name whose
	// state is uncertain is absent.
	known map[string]held
	// due are assignments to send again although their bytes are the same:
	// their cluster was sent, and warms until an assignment comes after it.
	due map[string]struct{}
	// refused are responses that the proxy did not accept, and which are not
	// sent again before the content of one of their names changes.
	refused []*refusal
	out     []*response
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

// response is one message on its way, or not answered yet.
type response struct {
	typ     resource.TypeURL
	nonce   string
	seq     uint64
	state   snapshot.State
	add     []*resource.Resource
	remove  []string
	version string // of the whole vector, state-of-the-world only
}

// refusal remembers what a refused response contained, since the proxy may have
// applied a part of it: it is corrected or removed later.
type refusal struct {
	versions map[string]string // name -> refused version, "" for a removal
	revision uint64
	text     string
}

func newSession(node string, sotw bool, limits Limits) *session {
	s := &session{
		node: node, sotw: sotw, limits: limits,
		types:   map[resource.TypeURL]*typed{},
		secrets: map[string]*resource.Resource{},
	}
	for _, t := range resource.Types {
		s.types[t] = &typed{
			url: t, names: map[string]struct{}{}, known: map[string]held{}, due: map[string]struct{}{},
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
		return s.secrets[name]
	}
	if _, named := t.names[name]; named && t.url == resource.Endpoint {
		return resource.Empty(name)
	}
	return nil
}

// wanted lists everything the proxy should have, in no order.
func (s *session) wanted(t *typed) []*resource.Resource {
	var out []*resource.Resource
	if !t.wildcard {
		for name := range t.names {
			if r := s.want(t, name); r != nil {
				out = append(out, r)
			}
		}
		return out
	}
	out = slices.AppendSeq(out, s.state.Set.Each(t.url))
	if t.url != resource.Secret {
		return out
	}
	for name, r := range s.secrets {
		if s.state.Set.Get(t.url, name) == nil {
			out = append(out, r)
		}
	}
	return out
}

// missing lists secrets that the proxy waits for and that are not made yet.
func (s *session) missing() []string {
	t := s.types[resource.Secret]
	names := s.state.Set.Secrets()
	return slices.DeleteFunc(names, func(n string) bool {
		_, named := t.names[n]
		return s.secrets[n] != nil || s.state.Set.Get(t.url, n) != nil || (!named && !t.wildcard)
	})
}

// emit numbers a response and takes it as sent.
func (s *session) emit(t *typed, r *response) *response {
	s.seq++
	r.typ, r.seq, r.state = t.url, s.seq, s.state
	r.nonce = strconv.FormatUint(s.seq, 10)
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

// forgive drops a name from what was refused: a new version is on its way.
func (t *typed) forgive(name string) {
	t.refused = slices.DeleteFunc(t.refused, func(f *refusal) bool {
		delete(f.versions, name)
		return len(f.versions) == 0
	})
}
