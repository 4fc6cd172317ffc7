package resolver

import (
	"strings"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/meshgate/meshgate/xds/naming"
)

// lifetime is how long clients may keep an address, in seconds. A name keeps its address, so it
// bounds only how long a name is known that is gone.
const lifetime = 30

// suffix is the domain in which names exist only as the mesh says. Other resolvers could say of
// a name that is about to exist that it does not, and for how long that counts.
const suffix = "mesh"

// maxPacket is the length of packets that pass every network in one piece; clients with EDNS are
// told so (RFC 6891 section 6.2.3).
const maxPacket = 1232

// answer answers a question about the mesh, and says whether it is one. Messages that are no
// questions get no answer.
func answer(query []byte, known naming.Table) (reply []byte, ours bool) {
	var p dnsmessage.Parser
	h, err := p.Start(query)
	if err != nil || h.Response {
		return nil, true
	}
	questions, err := p.AllQuestions()
	if err != nil {
		return message(h, nil, false, dnsmessage.RCodeFormatError, nil), true
	}
	if h.OpCode != 0 || len(questions) != 1 || questions[0].Class != dnsmessage.ClassINET {
		return nil, false
	}
	q := &questions[0]
	host := strings.ToLower(strings.TrimSuffix(q.Name.String(), "."))
	address, is := known[host]
	switch {
	case is && (q.Type == dnsmessage.TypeA || q.Type == dnsmessage.TypeALL):
		return message(h, q, extended(&p), dnsmessage.RCodeSuccess, &dnsmessage.AResource{A: address.As4()}), true
	case is: // there is the name, and nothing of this type (RFC 2308 section 2.2)
		return message(h, q, extended(&p), dnsmessage.RCodeSuccess, nil), true
	case host != suffix && !strings.HasSuffix(host, "."+suffix):
		return nil, false
	case known == nil:
		return message(h, q, extended(&p), dnsmessage.RCodeServerFailure, nil), true
	}
	return message(h, q, extended(&p), dnsmessage.RCodeNameError, nil), true
}

// extended reports whether the client speaks EDNS (RFC 6891).
func extended(p *dnsmessage.Parser) bool {
	if p.SkipAllAnswers() != nil || p.SkipAllAuthorities() != nil {
		return false
	}
	for {
		h, err := p.AdditionalHeader()
		if err != nil {
			return false
		}
		if h.Type == dnsmessage.TypeOPT {
			return true
		}
		if p.SkipAdditional() != nil {
			return false
		}
	}
}

// message returns an answer to a question, which is nil if it could not be read. There is no
// start of authority, so nobody remembers that something does not exist (RFC 2308 section 5).
func message(asked dnsmessage.Header, q *dnsmessage.Question, edns bool, code dnsmessage.RCode, a *dnsmessage.AResource) []byte {
	b := dnsmessage.NewBuilder(nil, dnsmessage.Header{
		ID: asked.ID, Response: true, OpCode: asked.OpCode, Authoritative: q != nil, RecursionDesired: asked.RecursionDesired, RecursionAvailable: true, RCode: code,
	})
	b.EnableCompression()
	parts := []error{b.StartQuestions()}
	if q != nil {
		parts = append(parts, b.Question(*q))
	}
	parts = append(parts, b.StartAnswers())
	if a != nil {
		parts = append(parts, b.AResource(dnsmessage.ResourceHeader{Name: q.Name, Class: dnsmessage.ClassINET, TTL: lifetime}, *a))
	}
	parts = append(parts, b.StartAdditionals())
	if edns {
		var h dnsmessage.ResourceHeader
		parts = append(parts, h.SetEDNS0(maxPacket, code, false), b.OPTResource(h, dnsmessage.OPTResource{}))
	}
	for _, err := range parts {
		if err != nil {
			return nil
		}
	}
	out, err := b.Finish()
	if err != nil {
		return nil
	}
	return out
}

// failure returns the answer to a question that nobody could be asked.
func failure(query []byte) []byte {
	var p dnsmessage.Parser
	h, err := p.Start(query)
	if err != nil {
		return nil
	}
	q, err := p.Question()
	if err != nil {
		return message(h, nil, false, dnsmessage.RCodeServerFailure, nil)
	}
	return message(h, &q, false, dnsmessage.RCodeServerFailure, nil)
}
