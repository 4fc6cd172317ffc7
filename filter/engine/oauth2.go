package engine

import "github.com/meshgate/meshgate/filter/contract"

// oauth2Step checks a bearer token (RFC 6750) against the service of the route.
type oauth2Step struct {
	id     string
	global bool
	hide   bool
	// anonymous is nil if failed authentication refuses.
	anonymous *anonymous
	missing   *Refusal
	invalid   *Refusal
	// unbound refuses a token of no service on a plugin that demands one.
	unbound *Refusal
}

// anonymous is the prepared fallback to a consumer without a credential.
type anonymous struct {
	// refusal is set if there is no consumer to fall back to.
	refusal *Refusal
	// values are copied into the buffer of the request; headers point into them.
	values  []byte
	headers [contract.NumIdentityHeaders]contract.Span
}

// run decides one request. It reports done if the verdict is final and the rest
// of the chain must not run.
func (s *oauth2Step) run(req *Request, d *decision, v *Verdict) (done bool) {
	if d.issuing {
		v.Action, v.Plugin = Issue, s.id
		return true
	}
	var token []byte
	var schemed bool
	if req.HasCredential {
		token, schemed = bearer(req.Credential)
	}
	v.RemoveCredential = s.hide && schemed
	if len(token) == 0 {
		return s.fail(d, v, s.missing)
	}
	hash := contract.HashToken(token)
	n, answer := d.tokens.Lookup(hash, d.buf)
	switch answer {
	case contract.Found:
		return s.accept(d, v, n)
	case contract.Unknown:
		return s.fail(d, v, s.invalid)
	case contract.Miss:
		v.Action, v.Plugin, v.Hash = Lookup, s.id, hash
		return true
	default: // Unavailable, and whatever a faulty cache may say
		return refuse(v, refuseUnavailable)
	}
}

// accept decides about a valid token from its packed record in the buffer.
func (s *oauth2Step) accept(d *decision, v *Verdict, n int) (done bool) {
	if n < 0 || n > len(d.buf) {
		return refuse(v, refuseUnusable)
	}
	record := d.buf[:n]
	f, ok := contract.Unpacked(record)
	if !ok {
		return refuse(v, refuseUnusable)
	}
	switch service := cut(record, f[contract.FieldService]); {
	case len(service) == 0 && !s.global:
		// Refused even with an anonymous consumer: the token is good, the
		// configuration is not, and hiding that would help nobody.
		return refuse(v, s.unbound)
	case len(service) != 0 && string(service) != d.service:
		return s.fail(d, v, s.invalid)
	}
	if !validRecord(record, &f) {
		return refuse(v, refuseUnusable)
	}
	v.Headers = [contract.NumIdentityHeaders]contract.Span{
		contract.HeaderConsumerID:           f[contract.FieldConsumerID],
		contract.HeaderConsumerCustomID:     f[contract.FieldConsumerCustomID],
		contract.HeaderConsumerUsername:     f[contract.FieldConsumerUsername],
		contract.HeaderCredentialIdentifier: f[contract.FieldClientID],
		contract.HeaderAuthenticatedScope:   f[contract.FieldScope],
		contract.HeaderAuthenticatedUserID:  f[contract.FieldUserID],
	}
	// A bare header value that was accepted is a credential too. One that was
	// not may be something else, such as Basic credentials for the upstream, and
	// is left to it.
	v.RemoveCredential = s.hide
	return false
}

// fail falls back to the anonymous consumer, or refuses. The fallback leaves no
// credential behind, so that a later plugin of the chain can still replace it.
func (s *oauth2Step) fail(d *decision, v *Verdict, with *Refusal) (done bool) {
	switch a := s.anonymous; {
	case a == nil:
		return refuse(v, with)
	case a.refusal != nil:
		return refuse(v, a.refusal)
	default:
		copy(d.buf, a.values)
		v.Headers = a.headers
		return false
	}
}

func refuse(v *Verdict, with *Refusal) (done bool) {
	*v = Verdict{Action: Refuse, Refusal: with}
	return true
}

func cut(b []byte, s contract.Span) []byte { return b[s.Off : s.Off+s.Len] }
