package engine

import (
	"errors"
	"fmt"

	"github.com/meshgate/meshgate/filter/contract"
)

// accessToken is the name of tokens in queries and bodies. Source: RFC 6750 sections 2.2 and
// 2.3.
const accessToken = "access_token"

// oauth2Step checks a bearer token (RFC 6750) against the service of the route.
type oauth2Step struct {
	id string
	// header is the index of the credential's header, and param the index of access_token.
	header, param int
	body          bodyReader
	inBody        bool
	service       string
	plane         string // of the service; see [contract.GoodFor]
	global        bool
	hide          bool
	// endpoints says that the route has more endpoints than the two issuing ones.
	endpoints bool
	// oneConsumer says that a later plugin may not name another consumer.
	oneConsumer bool
	// anonymous is nil if a request that fails authentication is refused.
	anonymous *anonymous
	missing   *Refusal
	invalid   invalid
	// unbound refuses a token that belongs to no service, if the plugin demands one.
	unbound *Refusal
}

func newOAuth2(p *Program, id string, c *contract.OAuth2) (*oauth2Step, error) {
	a, err := newAnonymous(c.Anonymous)
	switch {
	case err != nil:
		return nil, fmt.Errorf("oauth2.%w", err)
	case id == "" || !validValue(id):
		return nil, errors.New("plugin id is missing or cannot be sent in a header")
	}
	return &oauth2Step{
		id: id, header: p.headers.index(c.Header), param: p.paramIndex(accessToken), body: newBodyReader(&p.headers), inBody: c.InBody,
		service: p.service, plane: p.plane, global: c.Global, hide: c.HideCredentials, endpoints: c.Endpoints, oneConsumer: c.OneConsumer, anonymous: a,
		missing: refuseMissing(c.Realm), invalid: refuseInvalid(c.Realm), unbound: refuseUnbound(c.Realm),
	}, nil
}

// endpoint classifies the path of a request.
func (s *oauth2Step) endpoint(path []byte) endpoint { return endpointOf(path, s.endpoints) }

// run decides one request. It reports done if the verdict is final and the rest of the chain
// must not run.
func (s *oauth2Step) run(req *Request, d *decision, v *Verdict) (done bool) {
	if d.issuing || s.anonymous != nil && d.credential {
		return false
	}
	header, known := req.header(s.header)
	if !known {
		return need(v, NeedHeaders)
	}
	d.look(v)
	var token []byte
	bare := false
	if header != nil {
		var schemed bool
		token, schemed = bearer(header)
		bare = !schemed
		if s.hide && schemed {
			v.Remove |= 1 << s.header
		}
	} else if token, done = s.parameter(req, d, v); done {
		return true
	}
	if s.hide && (header == nil || bare) {
		s.hideQuery(req, d, v)
	}
	if len(token) == 0 {
		return s.anonymous.fail(d, v, s.missing)
	}
	if len(token) > contract.MaxCredential {
		return s.anonymous.fail(d, v, s.invalid.unknown)
	}
	n, answer, done := d.ask(contract.HashToken(token), s.id, v)
	if done {
		return true
	}
	if answer.Rejects() {
		d.mention(v, n)
		return s.anonymous.fail(d, v, s.invalid.of(answer))
	}
	return s.accept(d, v, n, bare)
}

// parameter finds the token in the query. If the query does not contain the name and the
// plugin searches bodies, it looks in the body.
func (s *oauth2Step) parameter(req *Request, d *decision, v *Verdict) (token []byte, done bool) {
	p := &d.program.params[s.param]
	found, token := findPair(query(req.Path), p, d.room()[:contract.MaxCredential])
	if found == absent && s.inBody {
		if !s.body.open(req, d, v) {
			return nil, true
		}
		found, token = d.body.found[s.param], d.body.values[s.param]
		if found != absent && s.hide {
			if contentType, _ := req.header(s.body.contentType); mediaOf(contentType) == mediaForm {
				v.HideBody |= 1 << s.param
			}
		}
	}
	switch found {
	case text:
		return token, false
	case long:
		return nil, s.anonymous.fail(d, v, s.invalid.unknown)
	default:
		return nil, false
	}
}

// hideQuery hides everything in the query under the name of tokens.
func (s *oauth2Step) hideQuery(req *Request, d *decision, v *Verdict) {
	if found, _ := findPair(query(req.Path), &d.program.params[s.param], nil); found != absent {
		v.HideQuery |= 1 << s.param
	}
}

// accept decides about a known token from its packed record in the buffer.
func (s *oauth2Step) accept(d *decision, v *Verdict, n int, bare bool) (done bool) {
	record, f, ok := d.read(n)
	if !ok {
		return refuse(v, refuseUnusable)
	}
	if len(cut(record, f[contract.FieldKey])) != 0 {
		return s.anonymous.fail(d, v, s.invalid.unknown)
	}
	switch service := cut(record, f[contract.FieldService]); {
	case contract.GoodFor(service, s.service, s.plane, s.global):
	case len(service) == 0:
		// The request is refused even with an anonymous consumer: the token is good but the
		// configuration is wrong, and hiding that would help nobody.
		d.mention(v, n)
		return refuse(v, s.unbound)
	default:
		d.mention(v, n)
		return s.anonymous.fail(d, v, s.invalid.elsewhere)
	}
	if !validRecord(record, &f) {
		return refuse(v, refuseUnusable)
	}
	if s.oneConsumer && !d.same(v, record, &f) {
		return refuse(v, refuseOthers)
	}
	d.establish(v, record, &f)
	// A bare header value that was accepted is a credential too. A value that was not
	// accepted may be something else, such as Basic credentials for the upstream, and stays.
	if s.hide && bare {
		v.Remove |= 1 << s.header
	}
	return false
}
