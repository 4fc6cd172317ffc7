package engine_test

import (
	"testing"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/engine"
)

type hotCase struct {
	name   string
	flags  uint8
	path   string
	value  string
	level  engine.Tokens
	action engine.Action
}

func hotCases() []hotCase {
	record := &contract.Record{
		Service: "00000000-0000-4000-8000-000000000002", Scope: "email phone address", UserID: "00000000-0000-4000-8000-000000000008",
		Credential: contract.Credential{ID: "c", ClientID: "abcdefghijklmnopqrstuvwxyz012345"},
		Consumer:   &contract.Consumer{ID: "00000000-0000-4000-8000-000000000005", Username: "somebody@example.com", CustomID: "4711"},
	}
	const token = "abcdefghijklmnopqrstuvwxyz012345"
	cached := &one{hash: contract.HashToken([]byte(token)), packed: record.Pack(nil), answer: contract.Found, otherwise: contract.Unknown}
	spoilt := *record
	spoilt.UserID = "a\nb"
	return []hotCase{
		{"hit", 4, "/api/v1/things?page=2", "Bearer " + token, cached, engine.Continue},
		{"hit bare", 0, "/api/v1/things", token, cached, engine.Continue},
		{"miss", 0, "/", "Bearer " + token, lying{answer: contract.Miss}, engine.Lookup},
		{"unknown", 8, "/", "Bearer x", cached, engine.Refuse},
		{"missing", 8, "/", "", cached, engine.Refuse},
		{"unavailable", 0, "/", "x", lying{answer: contract.Unavailable}, engine.Refuse},
		{"unusable", 0, "/", token, &one{hash: cached.hash, packed: spoilt.Pack(nil), answer: contract.Found}, engine.Refuse},
		{"anonymous", 16 | 32, "/", "x", cached, engine.Continue},
		{"anonymous missing", 16, "/", "x", cached, engine.Refuse},
		{"issue", 0, "/oauth2/token", "", cached, engine.Issue},
	}
}

func (h *hotCase) program() *engine.Program {
	c, _ := fuzzChain("00000000-0000-4000-8000-000000000002", "nobody", h.flags)
	return compile(c)
}

func TestDecideDoesNotAllocate(t *testing.T) {
	for _, h := range hotCases() {
		t.Run(h.name, func(t *testing.T) {
			p, buf := h.program(), make([]byte, engine.BufferSize)
			path, value := []byte(h.path), []byte(h.value)
			var v engine.Verdict
			n := testing.AllocsPerRun(200, func() {
				v = p.Decide(&engine.Request{Path: path, Credential: value, HasCredential: len(value) != 0}, h.level, buf)
			})
			if n != 0 {
				t.Errorf("%v allocations", n)
			}
			if v.Action != h.action {
				t.Errorf("action %v, want %v", v.Action, h.action)
			}
		})
	}
}

func TestEditsDoNotAllocate(t *testing.T) {
	h := hotCases()[0]
	p, name, count := h.program(), []byte("x_authenticated_userid"), 0
	n := testing.AllocsPerRun(200, func() {
		if engine.Spoofs(name) {
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
			p, buf := h.program(), make([]byte, engine.BufferSize)
			req := &engine.Request{Path: []byte(h.path), Credential: []byte(h.value), HasCredential: h.value != ""}
			b.ReportAllocs()
			for b.Loop() {
				p.Decide(req, h.level, buf)
			}
		})
	}
}
