package engine

import (
	"bytes"

	"github.com/meshgate/meshgate/filter/contract"
)

// bodyReader is where the headers stand that decide about reading a body.
type bodyReader struct{ method, contentType, length, upgrade int }

// bodyHeaders are their names.
var bodyHeaders = []string{methodHeader, typeHeader, lengthHeader, upgradeHeader}

func newBodyReader(l *headerList) bodyReader {
	return bodyReader{l.index(methodHeader), l.index(typeHeader), l.index(lengthHeader), l.index(upgradeHeader)}
}

// open makes sure that d.body holds what the body says. It reports false if
// something must be read first; the verdict then says what. A body that may not
// hold credentials is not waited for; nor is that of a request for an upgrade,
// which has no end.
func (b *bodyReader) open(req *Request, d *decision, v *Verdict) (ok bool) {
	if d.body != nil {
		return true
	}
	method, known := req.header(b.method)
	contentType, knownType := req.header(b.contentType)
	length, knownLength := req.header(b.length)
	upgrade, knownUpgrade := req.header(b.upgrade)
	if !known || !knownType || !knownLength || !knownUpgrade {
		return !need(v, NeedHeaders)
	}
	if !carriesForm(method) || mediaOf(contentType) == mediaNone || tooLong(length) || upgrade != nil {
		d.body = &emptyBody
		return true
	}
	switch req.BodyState {
	case BodyUnread:
		return !need(v, NeedBody)
	case BodyRead:
		// Copies: what the readers hand to functions escapes, and with it would all
		// that requests hold, which adapters keep on the stack.
		d.body = readBody(bytes.Clone(contentType), bytes.Clone(req.Body), d.program.params)
	default:
		d.body = &emptyBody
	}
	return true
}

// emptyBody is never written to.
var emptyBody bodyParams

func carriesForm(method []byte) bool {
	return string(method) == "POST" || string(method) == "PUT" || string(method) == "PATCH"
}

// tooLong reads a content-length, which the proxy has checked.
func tooLong(length []byte) bool {
	n := 0
	for _, c := range length {
		if n = n*10 + int(c-'0'); n > MaxBody {
			return true
		}
	}
	return false
}

// look begins the search of a plugin for a credential. The anonymous consumer of an earlier
// plugin goes, because what is found is written where its values stand: a refusal would
// show that to the log as the name of who asked. This plugin falls back for itself.
func (d *decision) look(v *Verdict) {
	if !d.credential {
		v.Headers = [contract.NumIdentityHeaders]contract.Span{}
	}
}

// ask looks a credential up. If it is not accepted at once, the verdict is set
// and done tells whether that is final.
func (d *decision) ask(hash contract.Hash, plugin string, v *Verdict) (n int, answer contract.Answer, done bool) {
	n, answer = d.tokens.Lookup(hash, d.room())
	d.hash = hash
	d.lookups++
	switch answer {
	case contract.Found, contract.Unknown, contract.Expired, contract.Revoked:
		return n, answer, false
	case contract.Miss:
		*v = Verdict{Action: Lookup, Plugin: plugin, Hash: hash}
		return 0, answer, true
	default: // Unavailable, and whatever a faulty cache may say
		return 0, answer, refuse(v, refuseUnavailable)
	}
}

// read unpacks what a look-up has left in the buffer. ok is false if that is no
// record which could be sent upstream.
func (d *decision) read(n int) (record []byte, fields [contract.NumFields]contract.Span, ok bool) {
	room := d.room()
	if n < 0 || n > len(room) {
		return nil, fields, false
	}
	record = room[:n]
	fields, ok = contract.Unpacked(record)
	return record, fields, ok
}

// same reports whether the owner of a record may join what an earlier plugin has
// accepted: it is the same consumer, or one of the two credentials has none.
func (d *decision) same(v *Verdict, record []byte, f *[contract.NumFields]contract.Span) bool {
	if !d.credential {
		return true
	}
	before, now := cut(d.buf, v.Headers[contract.HeaderConsumerID]), cut(record, f[contract.FieldConsumerID])
	return len(before) == 0 || len(now) == 0 || bytes.Equal(before, now)
}

// establish makes the owner of a record the caller. Scope and user are set by
// the plugins that know of them, and stay when a later one does not.
func (d *decision) establish(v *Verdict, record []byte, f *[contract.NumFields]contract.Span) {
	v.Headers[contract.HeaderConsumerID] = d.at(f[contract.FieldConsumerID])
	v.Headers[contract.HeaderConsumerCustomID] = d.at(f[contract.FieldConsumerCustomID])
	v.Headers[contract.HeaderConsumerUsername] = d.at(f[contract.FieldConsumerUsername])
	v.Headers[contract.HeaderCredentialIdentifier] = d.at(f[contract.FieldClientID])
	v.Headers[contract.HeaderAnonymousConsumer] = contract.Span{}
	if len(cut(record, f[contract.FieldKey])) == 0 {
		v.Headers[contract.HeaderAuthenticatedScope] = d.at(f[contract.FieldScope])
		v.Headers[contract.HeaderAuthenticatedUserID] = d.at(f[contract.FieldUserID])
	}
	d.used += len(record)
	d.credential = true
}

// at places a span of a record that was read.
func (d *decision) at(s contract.Span) contract.Span {
	s.Off += uint32(d.used) //nolint:gosec // bounded by BufferSize
	return s
}

// mention says for the log whose credential it is that is about to be refused,
// where a look-up has left that in the buffer. The last credential counts.
func (d *decision) mention(v *Verdict, n int) {
	_, f, ok := d.read(n)
	if !ok {
		return
	}
	v.Headers = [contract.NumIdentityHeaders]contract.Span{
		contract.HeaderConsumerID:           d.at(f[contract.FieldConsumerID]),
		contract.HeaderConsumerUsername:     d.at(f[contract.FieldConsumerUsername]),
		contract.HeaderCredentialIdentifier: d.at(f[contract.FieldClientID]),
	}
}

// need asks for more of the request.
func need(v *Verdict, what Action) (done bool) {
	*v = Verdict{Action: what}
	return true
}

func refuse(v *Verdict, with *Refusal) (done bool) {
	*v = Verdict{Action: Refuse, Refusal: with, Headers: v.Headers}
	return true
}

func cut(b []byte, s contract.Span) []byte { return b[s.Off : s.Off+s.Len] }
