package engine_test

import (
	"testing"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/engine"
)

// hotCase is a request that is decided from headers and path.
type hotCase struct {
	name   string
	chain  *contract.Chain
	path   string
	values map[string][]string
	level  engine.Tokens
	action engine.Action
}

// several is a first level that answers for several hashes.
type several map[contract.Hash][]byte

func (s several) Lookup(hash contract.Hash, dst []byte) (int, contract.Answer) {
	p, ok := s[hash]
	if !ok {
		return 0, contract.Unknown
	}
	return copy(dst, p), contract.Found
}

func hotCases() []hotCase {
	record := &contract.Record{
		Service: "00000000-0000-4000-8000-000000000002", Scope: "email phone address", UserID: "00000000-0000-4000-8000-000000000008",
		Credential: contract.Credential{ID: "c", ClientID: "abcdefghijklmnopqrstuvwxyz012345"},
		Consumer:   &contract.Consumer{ID: "00000000-0000-4000-8000-000000000005", Username: "somebody@example.com", CustomID: "4711"},
	}
	const token = "abcdefghijklmnopqrstuvwxyz012345"
	key := *record
	key.Key, key.Service = true, ""
	spoilt := *record
	spoilt.UserID = "a\nb"
	cached := several{contract.HashToken([]byte(token)): record.Pack(nil), contract.HashKey([]byte(token)): key.Pack(nil)}
	chain := func(flags uint8, more ...contract.Plugin) *contract.Chain {
		c, _ := fuzzChain("00000000-0000-4000-8000-000000000002", "nobody", flags)
		c.Plugins = append(c.Plugins, more...)
		return c
	}
	keyAuth := contract.Plugin{ID: "k", KeyAuth: &contract.KeyAuth{Names: []string{"apikey", "x-key"}, InHeader: true, InQuery: true, InBody: true, HideCredentials: true}}
	end := contract.Plugin{ID: "t", Termination: &contract.Termination{Default: &contract.Answered{Status: 503, Trigger: "x-stop"},
		Consumers: map[string]contract.Answered{"1": {Status: 503}}}}
	bearer := map[string][]string{"authorization": {"Bearer " + token}}
	both := map[string][]string{"authorization": {"Bearer " + token}, "apikey": {token}}
	value := func(v string) map[string][]string { return map[string][]string{"authorization": {v}} }
	return []hotCase{
		{"hit", chain(4), "/api/v1/things?page=2", bearer, cached, engine.Continue},
		{"hit bare", chain(0), "/api/v1/things", value(token), cached, engine.Continue},
		{"hit in query", chain(4), "/api/v1/things?page=2&access_token=" + token, nil, cached, engine.Continue},
		{"hit with key", chain(4, keyAuth), "/api/v1/things?page=2", both, cached, engine.Continue},
		{"hit with key in query", chain(4, keyAuth), "/api/v1/things?page=2&apikey=" + token, bearer, cached, engine.Continue},
		{"hit before termination", chain(4, end), "/api/v1/things?page=2", bearer, cached, engine.Continue},
		{"terminated", chain(4, end), "/?x-stop", bearer, cached, engine.Refuse},
		{"miss", chain(0), "/", bearer, lying{answer: contract.Miss}, engine.Lookup},
		{"unknown", chain(8), "/", value("Bearer x"), cached, engine.Refuse},
		{"missing", chain(8), "/", nil, cached, engine.Refuse},
		{"key missing", chain(8, keyAuth), "/", bearer, cached, engine.Refuse},
		{"unavailable", chain(0), "/", value("x"), lying{answer: contract.Unavailable}, engine.Refuse},
		{"unusable", chain(0), "/", value(token), several{contract.HashToken([]byte(token)): spoilt.Pack(nil)}, engine.Refuse},
		{"anonymous", chain(16 | 32), "/", value("x"), cached, engine.Continue},
		{"anonymous missing", chain(16), "/", value("x"), cached, engine.Refuse},
		{"issue", chain(0), "/oauth2/token", nil, cached, engine.Issue},
		{"issue with key", chain(0, keyAuth), "/oauth2/token", both, cached, engine.Issue},
	}
}

// request returns a request with all headers of the program, so that one decision is enough.
func (h *hotCase) request(p *engine.Program) *engine.Request {
	r := &engine.Request{Path: []byte(h.path)}
	r.Headers, r.Repeated = present(&message{Method: "GET", Headers: h.values}, p.Headers())
	return r
}

func TestDecideDoesNotAllocate(t *testing.T) {
	for _, h := range hotCases() {
		t.Run(h.name, func(t *testing.T) {
			p, buf := compile(h.chain), make([]byte, engine.BufferSize)
			req := h.request(p)
			var v engine.Verdict
			if n := testing.AllocsPerRun(200, func() { v = p.Decide(req, h.level, buf) }); n != 0 {
				t.Errorf("%v allocations", n)
			}
			if v.Action != h.action {
				t.Errorf("action %v, want %v", v.Action, h.action)
			}
		})
	}
}

// TestHotPathReadsNoMore: the early headers are only the header of the token, and the key
// names if the chain demands both a token and a key.
func TestHotPathReadsNoMore(t *testing.T) {
	for name, want := range map[string]int{"hit": 1, "hit with key": 3, "hit before termination": 1, "anonymous": 1} {
		for _, h := range hotCases() {
			if p := compile(h.chain); h.name == name && p.Early() != want {
				t.Errorf("%s: %d headers, %q", name, p.Early(), p.Headers())
			}
		}
	}
}

func TestEditsDoNotAllocate(t *testing.T) {
	h := hotCases()[0]
	p, name, count := compile(h.chain), []byte("x_authenticated_userid"), 0
	n := testing.AllocsPerRun(200, func() {
		if contract.IsReserved(name, false) {
			count++
		}
		if p.HandOver(&engine.Verdict{Plugin: "p"}, "https", "[2001:db8::1]:443")[3].Value == "2001:db8::1" {
			count++
		}
	})
	if n != 0 || count != 2*201 {
		t.Errorf("%v allocations, %d of %d results", n, count, 2*201)
	}
}

func BenchmarkDecide(b *testing.B) {
	for _, h := range hotCases() {
		b.Run(h.name, func(b *testing.B) {
			p, buf := compile(h.chain), make([]byte, engine.BufferSize)
			req := h.request(p)
			b.ReportAllocs()
			for b.Loop() {
				p.Decide(req, h.level, buf)
			}
		})
	}
}
