package engine_test

import (
	"testing"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/engine"
)

// level is a first level that gives the same answer for every token.
type level contract.Answer

func (l level) Lookup(contract.Hash, []byte) (int, contract.Answer) { return 0, contract.Answer(l) }

// TestKnownAnswersCountFirst: the first level is not asked again for a token that has been
// looked up. An answer that makes no sense counts as an unavailable authority.
func TestKnownAnswersCountFirst(t *testing.T) {
	known, other := contract.HashToken([]byte("known")), contract.HashToken([]byte("other"))
	for answer, want := range map[contract.Answer]contract.Answer{
		contract.Found: contract.Found, contract.Unknown: contract.Unknown, contract.Expired: contract.Expired,
		contract.Revoked: contract.Revoked, contract.Unavailable: contract.Unavailable,
		contract.Miss: contract.Unavailable, contract.Answer(200): contract.Unavailable,
	} {
		b := engine.Beside{Known: []engine.Found{{Hash: known, Answer: answer, Packed: []byte("record")}}, Level: level(contract.Miss)}
		dst := make([]byte, contract.MaxPacked)
		n, got := b.Lookup(known, dst)
		if got != want || (got != contract.Unavailable) != (string(dst[:n]) == "record") {
			t.Errorf("answer %d: %d with %q, want %d", answer, got, dst[:n], want)
		}
		if _, got := b.Lookup(other, dst); got != contract.Miss {
			t.Errorf("another token: %d", got)
		}
	}
}

// forgetful is a request whose body stays unread forever.
type forgetful struct{ asked int }

func (*forgetful) Headers(names []string) (values [][]byte, repeated uint32) {
	values = make([][]byte, len(names))
	for i, n := range names {
		switch n {
		case ":method":
			values[i] = []byte("POST")
		case "content-type":
			values[i] = []byte("application/json")
		}
	}
	return values, 0
}

func (f *forgetful) Body() (engine.BodyState, []byte) {
	f.asked++
	return engine.BodyUnread, nil
}

func (*forgetful) Resolve(contract.Hash, string) engine.Found { return engine.Found{} }

// TestSettleEnds: a decision that never gets what it asks for ends with an error and a
// verdict that refuses.
func TestSettleEnds(t *testing.T) {
	in := engine.NewInterner()
	ref := in.Acquire([]byte(`{"route":"r","service":"s","plugins":[{"id":"p","oauth2":{"header":"authorization","in_body":true}}]}`))
	defer ref.Release()
	f := &forgetful{}
	v, err := ref.Program().Settle(&engine.Request{Path: []byte("/")}, level(contract.Unknown), f, make([]byte, engine.BufferSize))
	if err == nil || v.Action != engine.Refuse || f.asked == 0 {
		t.Errorf("error %v, action %d, the body was asked for %d times", err, v.Action, f.asked)
	}
}
