package engine

import (
	"errors"
	"fmt"

	"github.com/meshgate/meshgate/filter/contract"
)

// keyAuthStep checks an API key. Source: requirement "Authentication", the
// key-based plugin.
type keyAuthStep struct {
	id    string
	names []keyName
	body  bodyReader
	// where keys are looked for
	inHeader, inQuery, inBody bool
	hide                      bool
	// preflight says that OPTIONS requests pass without a key.
	preflight bool
	// anonymous is nil if a request that fails authentication is refused.
	anonymous *anonymous
	missing   *Refusal
	invalid   invalid
	duplicate *Refusal
}

// keyName holds the indexes of one key name: as a header and as a parameter.
type keyName struct{ header, param int }

func newKeyAuth(p *Program, id string, c *contract.KeyAuth) (*keyAuthStep, error) {
	a, err := newAnonymous(c.Anonymous)
	switch {
	case err != nil:
		return nil, fmt.Errorf("key_auth.%w", err)
	case id == "":
		return nil, errors.New("plugin id is missing")
	}
	s := &keyAuthStep{
		id: id, body: newBodyReader(&p.headers), inHeader: c.InHeader, inQuery: c.InQuery, inBody: c.InBody,
		hide: c.HideCredentials, preflight: c.SkipPreflight, anonymous: a,
		missing: refuseNoKey(c.Realm), invalid: refuseKey(c.Realm), duplicate: refuseDuplicate(c.Realm),
	}
	for _, n := range c.Names {
		s.names = append(s.names, keyName{p.headers.index(n), p.paramIndex(n)})
	}
	return s, nil
}

// run decides one request, like [oauth2Step.run].
func (s *keyAuthStep) run(req *Request, d *decision, v *Verdict) (done bool) {
	if s.anonymous != nil && (d.credential || d.issuing) {
		return false
	}
	if s.preflight {
		method, known := req.header(s.body.method)
		if !known {
			return need(v, NeedHeaders)
		}
		if string(method) == "OPTIONS" {
			return false
		}
	}
	d.look(v)
	key, found, done := s.find(req, d, v)
	switch {
	case done:
		return true
	case found == repeated:
		return s.anonymous.fail(d, v, s.duplicate)
	case found == long, len(key) > contract.MaxCredential:
		return s.anonymous.fail(d, v, s.invalid.unknown)
	case len(key) == 0:
		return s.anonymous.fail(d, v, s.missing)
	}
	n, answer, done := d.ask(contract.HashKey(key), s.id, v)
	if done {
		return true
	}
	if answer.Rejects() {
		d.mention(v, n)
		return s.anonymous.fail(d, v, s.invalid.of(answer))
	}
	return s.accept(d, v, n)
}

// find looks for a key under each name in order. It skips a value that is not a string. A
// list ends the search.
func (s *keyAuthStep) find(req *Request, d *decision, v *Verdict) (key []byte, found kind, done bool) {
	for i := range s.names {
		key, found, done = s.at(&s.names[i], req, d, v)
		if done {
			return nil, found, true
		}
		if found != absent && s.hide {
			s.conceal(&s.names[i], req, d, v)
		}
		if found == text || found == long || found == repeated {
			return key, found, false
		}
	}
	return nil, absent, false
}

// at looks under one name: in the header, then in the query, then in the body.
func (s *keyAuthStep) at(n *keyName, req *Request, d *decision, v *Verdict) (key []byte, found kind, done bool) {
	if s.inHeader {
		value, known := req.header(n.header)
		switch {
		case !known:
			return nil, absent, need(v, NeedHeaders)
		case req.Repeated>>n.header&1 != 0:
			return nil, repeated, false
		case value != nil:
			return value, text, false
		}
	}
	if s.inQuery {
		found, key = findPair(query(req.Path), &d.program.params[n.param], d.room()[:contract.MaxCredential])
		if found != absent {
			return key, found, false
		}
	}
	if s.inBody {
		if !s.body.open(req, d, v) {
			return nil, absent, true
		}
		return d.body.values[n.param], d.body.found[n.param], false
	}
	return nil, absent, false
}

// conceal hides everything under a name, in all places where the plugin searches.
func (s *keyAuthStep) conceal(n *keyName, req *Request, d *decision, v *Verdict) {
	if s.inHeader {
		if value, _ := req.header(n.header); value != nil {
			v.Remove |= 1 << n.header
		}
	}
	if s.inQuery {
		if found, _ := findPair(query(req.Path), &d.program.params[n.param], nil); found != absent {
			v.HideQuery |= 1 << n.param
		}
	}
	if s.inBody && d.body != nil && d.body.found[n.param] != absent {
		v.HideBody |= 1 << n.param
	}
}

// accept decides about a known key from its packed record in the buffer.
func (s *keyAuthStep) accept(d *decision, v *Verdict, n int) (done bool) {
	record, f, ok := d.read(n)
	switch {
	case !ok:
		return refuse(v, refuseUnusable)
	case len(cut(record, f[contract.FieldKey])) == 0:
		return s.anonymous.fail(d, v, s.invalid.unknown)
	case !validRecord(record, &f):
		return refuse(v, refuseUnusable)
	case d.program.token != nil && d.program.token.oneConsumer && !d.same(v, record, &f):
		return refuse(v, refuseOthers)
	}
	d.establish(v, record, &f)
	return false
}
