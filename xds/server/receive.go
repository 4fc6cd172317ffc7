package server

import (
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/snapshot"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// maxFlushes bounds the readings that wait for their confirmation.
const maxFlushes = 32

// maxErrorBytes bounds what is kept of a proxy's reason.
const maxErrorBytes = 4 << 10

// secretError stands for every reason that may contain key material.
const secretError = "the proxy refused a secret; its log says why"

// request is one message of a proxy, of either variant.
type request struct {
	metadata  map[string]string
	node      string // "" after the first message, normally
	bare      bool   // the node has no filter
	url       resource.TypeURL
	subscribe []string
	// unsubscribe is used by the delta variant; in the other one subscribe is
	// the whole list each time.
	unsubscribe []string
	versions    map[string]string // what a returning proxy has
	nonce       string
	refused     bool
	text        string
	accepted    string // version_info, state-of-the-world only
}

// answer is what a request said about a response.
type answer struct {
	response *response
	refused  bool
	text     string
	// asks is whether the request asked for something besides: what it makes the server
	// send can be answered and asked for again, for ever.
	asks bool
}

// receive takes a request into account. The answer is nil if it answered
// nothing. An error ends the stream.
func (s *session) receive(r request) (*answer, error) {
	t := s.types[r.url]
	if t == nil {
		return nil, s.strange(r)
	}
	first := !t.asked
	var a *answer
	if r.nonce != "" {
		a = s.settle(t, r)
	}
	if first || s.sotw || r.refused || len(r.subscribe)+len(r.unsubscribe) > 0 {
		s.quiet = quiet{}
		if all := slices.Contains(r.subscribe, "*") || slices.Contains(r.unsubscribe, "*"); first || s.sotw || r.refused || all {
			t.again()
		} else {
			t.touch(r.subscribe...)
			t.touch(r.unsubscribe...)
		}
	}
	t.asked = true
	asks := len(r.subscribe)+len(r.unsubscribe) > 0
	if s.sotw {
		asks = s.replace(t, r, first)
	} else {
		s.subscribe(t, r, first)
	}
	if a != nil {
		a.asks = asks
	}
	if names, bytes := s.remembered(); names > s.limits.Names || bytes > s.limits.NameBytes {
		return a, status.Error(codes.ResourceExhausted, "the stream subscribes to too many names")
	}
	return a, nil
}

// subscribe applies a delta request. A name that is subscribed again is sent
// again: the proxy has forgotten it.
func (s *session) subscribe(t *typed, r request, first bool) {
	for _, name := range r.subscribe {
		if name == "*" {
			s.everything(t, len(r.versions) == 0)
			continue
		}
		t.subscribe(name)
		delete(t.known, name)
	}
	if first && len(r.subscribe) == 0 && (t.url == resource.Cluster || t.url == resource.Listener) {
		s.everything(t, len(r.versions) == 0)
	}
	for _, name := range r.unsubscribe {
		if name == "*" {
			t.wildcard = false
			s.forgetUnnamed(t)
			continue
		}
		t.unsubscribe(name)
		if !t.wildcard {
			delete(t.known, name)
			delete(t.due, name)
		}
	}
	if !first {
		return
	}
	for name, version := range r.versions {
		if _, named := t.names[name]; named || t.wildcard {
			t.known[name] = held{version: version}
			t.brought += len(name) + len(version)
		}
	}
}

// subscribe and unsubscribe keep the length of all names that are subscribed.
func (t *typed) subscribe(name string) {
	if _, again := t.names[name]; !again {
		t.names[name] = struct{}{}
		t.named += len(name)
	}
}

func (t *typed) unsubscribe(name string) {
	if _, there := t.names[name]; there {
		delete(t.names, name)
		t.named -= len(name)
	}
}

// everything subscribes to all names. A proxy that brings nothing along is
// answered even if there is nothing: it waits for the first response.
func (s *session) everything(t *typed, answer bool) {
	if !t.wildcard && answer {
		t.full = true
	}
	t.wildcard = true
	if t.url == resource.Endpoint {
		clear(t.due) // a relay sends them again by itself
	}
}

// replace applies the whole list of a state-of-the-world request, and reports whether it
// is another one than before.
func (s *session) replace(t *typed, r request, first bool) bool {
	next := make(map[string]struct{}, len(r.subscribe))
	all := first && len(r.subscribe) == 0 || t.wildcard && len(r.subscribe) == 0
	all = all && (t.url == resource.Cluster || t.url == resource.Listener)
	for _, name := range r.subscribe {
		if name == "*" {
			all = true
			continue
		}
		next[name] = struct{}{}
	}
	changed := all != t.wildcard || !maps.Equal(next, t.names)
	if all {
		s.everything(t, first)
	}
	t.wildcard, t.names, t.named = all, next, 0
	for name := range next {
		t.named += len(name)
	}
	s.forgetUnnamed(t)
	if first {
		t.accepted = r.accepted
		s.resume(t)
	}
	return changed
}

// forgetUnnamed drops what is no longer subscribed.
func (s *session) forgetUnnamed(t *typed) {
	if t.wildcard {
		return
	}
	for name := range t.known {
		if _, named := t.names[name]; !named {
			delete(t.known, name)
			delete(t.due, name)
		}
	}
}

// settle finds the response that a request answers. Answers to unknown nonces
// are of no meaning here and are passed over.
func (s *session) settle(t *typed, r request) *answer {
	i := slices.IndexFunc(t.out, func(o *response) bool { return o.nonce == r.nonce })
	if i < 0 {
		return nil
	}
	a := &answer{response: t.out[i], refused: r.refused}
	t.out = slices.Delete(t.out, i, i+1)
	switch {
	case r.refused:
		a.text = safeText(t.url, r.text, a.response.add)
		s.refuse(t, a)
	case a.response.frees:
		s.repeat(t, a.response)
	}
	return a
}

// refuse remembers a refused response. What it held stays in known: the proxy
// may have applied a part, so it must be removed when it goes; the same bytes
// are not sent again. Names that a later response has overtaken do not matter, but
// the others of such a response are tried again at once: what was refused may be
// corrected, and then nothing else would have them sent.
func (s *session) refuse(t *typed, a *answer) {
	overtaken := false
	f := &refusal{versions: map[string]string{}, revision: t.since(a.response), text: a.text}
	for _, r := range a.response.add {
		if t.known[r.Name].version == r.Version {
			f.versions[r.Name] = r.Version
		} else {
			overtaken = true
		}
	}
	for _, name := range a.response.remove {
		if _, again := t.known[name]; !again {
			f.versions[name] = ""
		} else {
			overtaken = true
		}
	}
	for name := range f.versions {
		f.bytes += len(name)
	}
	switch {
	case len(f.versions) == 0:
	case overtaken && !s.vector(t): // a later vector holds everything anyway
		s.redo(t, f)
		s.unconfirm(a.response)
	default:
		t.refused = append(t.refused, f)
		if a.response.frees && len(a.response.add) > 0 {
			s.repeat(t, a.response)
		}
	}
}

// repeat has refused listeners sent once more after a response that may have freed
// an address, be it that others of a refused one were applied. Their bytes need not
// change for them to be accepted now, and else their ports stay shut. It ends: a
// repetition frees nothing, since refused removals are not repeated along with it.
// What was on its way is confirmed with the repetition.
func (s *session) repeat(t *typed, after *response) {
	if len(t.refused) == 0 {
		return
	}
	for _, f := range t.refused {
		s.redo(t, f)
	}
	t.retried = append(t.retried, t.refused...)
	t.refused, t.alone = nil, true
	s.unconfirm(after)
}

// unconfirm has what was on its way with a response confirmed with what follows.
func (s *session) unconfirm(r *response) {
	s.flushed = slices.DeleteFunc(s.flushed, func(f flush) bool { return f.seq >= r.seq })
}

// redo has the content of a refused response sent again. Its names stay known: the proxy
// may have an older version, which has to be removed if the name goes before.
func (s *session) redo(t *typed, f *refusal) {
	t.again()
	s.quiet = quiet{}
	for name, version := range f.versions {
		if version == "" || t.known[name].version == version && s.want(t, name) != nil {
			t.known[name] = held{version: refusedVersion}
		}
	}
}

// since is the oldest revision that may be part of a response: what was refused before
// and is sent again has been refused since then.
func (t *typed) since(r *response) uint64 {
	since := r.state.Since
	for _, f := range t.retried {
		if slices.ContainsFunc(r.add, func(a *resource.Resource) bool { return f.holds(a.Name) }) || slices.ContainsFunc(r.remove, f.holds) {
			since = min(since, f.revision)
		}
	}
	return since
}

func (f *refusal) holds(name string) bool {
	_, ok := f.versions[name]
	return ok
}

// settled drops of what is sent again all that was answered.
func (t *typed) settled() {
	if len(t.retried) == 0 {
		return
	}
	unanswered := map[string]bool{}
	for _, r := range t.out {
		for _, a := range r.add {
			unanswered[a.Name] = true
		}
		for _, name := range r.remove {
			unanswered[name] = true
		}
	}
	t.retried = slices.DeleteFunc(t.retried, func(f *refusal) bool {
		maps.DeleteFunc(f.versions, func(name, _ string) bool {
			return t.known[name].version != refusedVersion && !unanswered[name]
		})
		return len(f.versions) == 0
	})
}

// renew takes a new reading. A refused response is tried again as a whole once
// one of its names has other content: a response can be refused for one of its
// resources, and then the others may not have been applied either.
func (s *session) renew(st snapshot.State) {
	old := s.state.Set
	s.state = st
	for name := range s.secrets {
		if !st.Set.AllowsSecret(name) {
			delete(s.secrets, name)
		}
	}
	for _, t := range s.types {
		if !t.walk {
			t.touch(s.diffs.between(old.Table(t.url), st.Set.Table(t.url))...)
		}
		s.retry(t)
	}
}

func (s *session) retry(t *typed) {
	t.refused = slices.DeleteFunc(t.refused, func(f *refusal) bool {
		changed := false
		for name, version := range f.versions {
			now := ""
			if r := s.want(t, name); r != nil {
				now = r.Version
			}
			changed = changed || now != version
		}
		if !changed {
			return false
		}
		s.redo(t, f)
		t.retried = append(t.retried, f)
		return true
	})
}

// rejections lists what the proxy refuses at present, as far as it has said.
func (s *session) rejections() []snapshot.Rejection {
	var out []snapshot.Rejection
	for _, url := range resource.Types {
		t := s.types[url]
		t.settled()
		for _, f := range slices.Concat(t.refused, t.retried) {
			r := snapshot.Rejection{Name: s.node, Type: url, Error: f.text, Revision: f.revision}
			for name := range f.versions {
				r.Resources = append(r.Resources, name)
			}
			slices.Sort(r.Resources)
			out = append(out, r)
		}
	}
	return out
}

// toLookAt is how many names of a type the server goes over next.
func (s *session) toLookAt(url resource.TypeURL) int {
	t := s.types[url]
	switch {
	case t == nil:
		return 0
	case t.walk:
		return len(t.names) + len(t.known) + len(t.due)
	default:
		return len(t.moved)
	}
}

// remembered is how many names the stream makes the server remember, and how many bytes
// of them it has sent. Names of what it refuses count whoever has made them up.
func (s *session) remembered() (names, bytes int) {
	for _, t := range s.types {
		names += len(t.names) + len(t.known)
		bytes += t.named + t.brought
		for _, all := range [][]*refusal{t.refused, t.retried} {
			for _, f := range all {
				names += 1 + len(f.versions)
				bytes += f.bytes + len(f.text)
			}
		}
	}
	return names, bytes
}

// safeText bounds a proxy's reason to refuse some resources and drops it where it may
// quote a key, which a proxy prints with a secret that fails its validation, under any
// type, or another value that is shown to nobody.
func safeText(t resource.TypeURL, text string, refused []*resource.Resource) string {
	if t == resource.Secret || strings.Contains(text, "PRIVATE KEY") || strings.Contains(text, "private_key") {
		return secretError
	}
	text = conceal(text, refused) // before it is cut: a part of a value is not found
	if len(text) > maxErrorBytes {
		text = strings.Clone(text[:maxErrorBytes]) // the rest is not kept
	}
	if !utf8.ValidString(text) {
		text = strings.ToValidUTF8(text, "\uFFFD")
	}
	return text
}
