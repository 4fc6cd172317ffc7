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

// maxFlushes is the maximum number of states that wait for their confirmation.
const maxFlushes = 32

// maxErrorBytes is the maximum length of a kept reason of a proxy.
const maxErrorBytes = 4 << 10

// secretError replaces every reason that may contain key material.
const secretError = "the proxy refused a secret; its log says why"

// request is one message of a proxy, in either variant.
type request struct {
	metadata  map[string]string
	node      string // normally only in the first message
	bare      bool   // the node says that it has no filter
	url       resource.TypeURL
	subscribe []string
	// unsubscribe is used by the delta variant only. In the other variant, subscribe is the
	// whole list each time.
	unsubscribe []string
	versions    map[string]string // what a returning proxy already has
	nonce       string
	refused     bool
	text        string
	accepted    string // version_info, state-of-the-world only
}

// answer is what a request says about a response.
type answer struct {
	response *response
	refused  bool
	text     string
	// named says that the text names what is refused.
	named bool
	// divided says that the response is sent again in parts: nothing counts as refused yet.
	divided bool
	// asks says that the request also subscribes or unsubscribes. Such a request makes the
	// server send something that can be answered in the same way again, without end.
	asks bool
}

// searches reports whether an answer belongs to the search for what is refused. The search ends by
// itself (maxApart), and must not end the stream: it would begin anew on the next one.
func (a *answer) searches() bool { return a.divided || a.response.apart != nil }

// receive processes a request. The answer is nil if the request answers no response. An error
// ends the stream.
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

// subscribe applies a delta request. A name that is subscribed again is sent again, because
// the proxy has forgotten it.
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

// subscribe and unsubscribe also keep the total length of the subscribed names.
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

// everything subscribes to all names. A proxy that brings no versions waits for its first
// response, so it gets one even if there is nothing to send.
func (s *session) everything(t *typed, answer bool) {
	if !t.wildcard && answer {
		t.full = true
	}
	t.wildcard = true
	if t.url == resource.Endpoint {
		clear(t.due) // a relay sends them again by itself
	}
}

// replace applies the whole list of a state-of-the-world request. It reports whether the list
// has changed.
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

// forgetUnnamed drops the names that are no longer subscribed.
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

// settle finds the response that a request answers. It ignores answers to unknown nonces.
func (s *session) settle(t *typed, r request) *answer {
	i := slices.IndexFunc(t.out, func(o *response) bool { return o.nonce == r.nonce })
	if i < 0 {
		return nil
	}
	a := &answer{response: t.out[i], refused: r.refused}
	t.out = slices.Delete(t.out, i, i+1)
	switch {
	case r.refused:
		a.named = s.names(t, r.text, a.response.add)
		a.text = told(t, r.text, a.named, a.response.add)
		s.refuse(t, a)
	case a.response.frees:
		s.repeat(t, a.response)
	}
	return a
}

// refuse remembers a refused response. Its content stays in known: the proxy may have applied
// a part of it, and that part must be removed when it leaves the set. The same bytes are not
// sent again.
//
// Names that a later response has overtaken are not remembered. The other names of such a
// response are sent again at once: if the overtaken name was the reason for the refusal, it
// may be correct now, and nothing else would cause the others to be sent.
//
// A refused removal of a secret is not remembered. Nothing in the set uses that secret, so the proxy lacks
// nothing. Remembered, it would count as a refusal of the roots of other meshes, whose rotations would then
// wait for a proxy that is not to judge by them. Such a proxy may still run an old listener, since it may
// have refused to change that, too. It goes by the roots that it has: it turns newer certificates away, and
// nobody else does. That is the lesser evil. To ask it is of no use, as it could also agree and keep them.
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
		_, again := t.known[name]
		switch {
		case again:
			overtaken = true
		case t.url != resource.Secret:
			f.versions[name] = ""
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
	case s.divide(t, a, f):
		a.divided = true
	default:
		t.refused = append(t.refused, f)
		if a.response.frees && len(a.response.add) > 0 {
			s.repeat(t, a.response)
		}
	}
}

// repeat sends refused listeners once more after a response that may have freed an address.
// That response may itself have been refused in part. The repeated bytes may be accepted now,
// although they have not changed; without the repetition their ports would stay closed. This
// ends, because a repetition frees nothing: refused removals are not repeated together with
// it. What was sent by then is confirmed only with the repetition.
func (s *session) repeat(t *typed, after *response) {
	var again, unsent []*refusal
	for _, f := range t.refused {
		if f.unsent {
			unsent = append(unsent, f)
			continue
		}
		again = append(again, f)
		s.redo(t, f)
	}
	if len(again) == 0 {
		return
	}
	t.retried = append(t.retried, again...)
	t.refused, t.alone = unsent, true
	s.unconfirm(after)
}

// unconfirm delays the confirmation of everything that was sent with a response or after it,
// until the following responses are answered.
func (s *session) unconfirm(r *response) {
	s.flushed = slices.DeleteFunc(s.flushed, func(f flush) bool { return f.seq >= r.seq })
}

// redo makes the session send the content of a refused response again. The names stay known:
// the proxy may have older versions, which must be removed if the names leave the set first.
func (s *session) redo(t *typed, f *refusal) {
	t.again()
	s.quiet = quiet{}
	for name, version := range f.versions {
		if version == "" || t.known[name].version == version && s.want(t, name) != nil {
			t.known[name] = held{version: refusedVersion}
		}
	}
}

// since returns the oldest revision that a response may contain. Content that was refused and
// is sent again counts from the revision that was refused first.
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

// settled removes from retried all names that were answered.
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

// renew takes a new state. A refused response is sent again as a whole once the content of one
// of its names has changed: the proxy may have refused it because of one resource and have
// applied none of the others.
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

// rejections lists what the proxy currently refuses, as far as it has answered.
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

// toLookAt returns how many names of a type the server will look at next.
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

// toLookAtBeyond returns how many of those names there are only because the proxy wants it so. What
// the search costs is bounded by the set of the proxy, and this is not.
func (s *session) toLookAtBeyond(url resource.TypeURL) int {
	own := s.state.Set.Len(url)
	t := s.types[url]
	if t == nil || !t.walk {
		return 0
	}
	return max(len(t.names)-own, 0) + max(len(t.known)-own, 0)
}

// remembered returns how many names, and how many bytes of names, versions and reasons, the
// proxy makes the server remember. The names of refused content count too, whoever chose them.
func (s *session) remembered() (names, bytes int) {
	for _, t := range s.types {
		names += len(t.names) + len(t.known)
		bytes += t.named + t.brought
		for _, p := range t.aparts {
			names += len(p.names)
		}
		for _, all := range [][]*refusal{t.refused, t.retried} {
			for _, f := range all {
				names += 1 + len(f.versions)
				bytes += f.bytes + len(f.text)
			}
		}
	}
	return names, bytes
}

// safeText limits the length of a proxy's reason. It replaces a reason that may quote a
// private key, which a proxy can print under any type when a secret fails validation. It
// conceals other values that nobody may see.
func safeText(t resource.TypeURL, text string, refused []*resource.Resource) string {
	if t == resource.Secret || strings.Contains(text, "PRIVATE KEY") || strings.Contains(text, "private_key") {
		return secretError
	}
	text = conceal(text, refused) // before the text is cut: a part of a value would not be found
	if len(text) > maxErrorBytes {
		text = strings.Clone(text[:maxErrorBytes]) // do not keep the rest in memory
	}
	if !utf8.ValidString(text) {
		text = strings.ToValidUTF8(text, "\uFFFD")
	}
	return text
}
