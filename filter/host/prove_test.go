package host

import (
	"testing"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/engine"
	"github.com/meshgate/meshgate/filter/host/hosttest"
	"github.com/meshgate/meshgate/filter/tokencache"
)

// proving is a cache whose proofs are given, one for each call; after the last there is none.
type proving struct {
	*hosttest.Tokens
	proofs []tokencache.Proof
	// between is called before each look-up that is not counted.
	between func()
	// counted are the look-ups that are.
	counted int
}

func (p *proving) Prove(contract.Hash) (tokencache.Proof, bool) {
	if len(p.proofs) == 0 {
		return tokencache.Proof{}, false
	}
	proof := p.proofs[0]
	p.proofs = p.proofs[1:]
	return proof, true
}

func (p *proving) Lookup(hash contract.Hash, dst []byte) (int, contract.Answer) {
	p.counted++
	return p.Tokens.Lookup(hash, dst)
}

func (p *proving) Peek(hash contract.Hash, dst []byte) (int, contract.Answer) {
	if p.between != nil {
		p.between()
	}
	return p.Tokens.Lookup(hash, dst)
}

// TestProve: a verdict holds for as long as a proof that is the same before it and after it.
// Whatever else the second decision comes to is what is done.
func TestProve(t *testing.T) {
	one, two := tokencache.Proof{Revision: 1}, tokencache.Proof{Revision: 2}
	for name, tc := range map[string]struct {
		proofs  []tokencache.Proof
		revoked bool
		proven  bool
		action  engine.Action
	}{
		"the same record":     {[]tokencache.Proof{one, one}, false, true, engine.Continue},
		"another record":      {[]tokencache.Proof{one, two}, false, false, engine.Continue},
		"none afterwards":     {[]tokencache.Proof{one}, false, false, engine.Continue},
		"none at all":         {nil, false, false, engine.Continue},
		"revoked in between":  {[]tokencache.Proof{one, one}, true, false, engine.Lookup},
		"revoked, and proven": {[]tokencache.Proof{one}, true, false, engine.Lookup},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			cache := &proving{Tokens: hosttest.NewTokens("good"), proofs: tc.proofs}
			if tc.revoked {
				cache.between = func() { cache.Hash = contract.Hash{} }
			}
			f.Host = New(NewLogger(f.log), func(*Host, *contract.Settings, string) (Tokens, error) { return cache, nil })
			f.source, _, _ = f.AcquireSource(nil)
			f.route, _, _ = f.AcquireProgram([]byte(hosttest.Chain))
			req := &engine.Request{Path: []byte("/"), Headers: [][]byte{[]byte("Bearer good")}}
			buf := make([]byte, engine.BufferSize)
			v := f.Decide(f.source, f.route, req, nil, buf)
			if v.Action != engine.Continue || !v.Repeats {
				t.Fatalf("%+v", v)
			}
			proof, ok := f.Prove(f.source, f.route, req, &v, buf)
			if ok != tc.proven || ok && proof != one || v.Action != tc.action {
				t.Errorf("proven %t by %+v, action %d", ok, proof, v.Action)
			}
			if cache.counted != 1 {
				t.Errorf("one request is counted %d times", cache.counted)
			}
		})
	}
}

// TestProveNothing: with handles that name nothing, a verdict that does not repeat, or a cache
// that proves nothing, nothing is proven and the verdict stays.
func TestProveNothing(t *testing.T) {
	f := newFixture(t)
	req := &engine.Request{Path: []byte("/"), Headers: [][]byte{[]byte("Bearer good")}}
	buf := make([]byte, engine.BufferSize)
	v := f.Decide(f.source, f.route, req, nil, buf)
	for name, try := range map[string]func(v *engine.Verdict) bool{
		"no source":  func(v *engine.Verdict) bool { _, ok := f.Prove(0, f.route, req, v, buf); return ok },
		"no program": func(v *engine.Verdict) bool { _, ok := f.Prove(f.source, 0, req, v, buf); return ok },
		"no proofs":  func(v *engine.Verdict) bool { _, ok := f.Prove(f.source, f.route, req, v, buf); return ok },
		"no repeated": func(v *engine.Verdict) bool {
			v.Repeats = false
			_, ok := f.Prove(f.source, f.route, req, v, buf)
			return ok
		},
	} {
		got := v
		if try(&got) || got.Action != engine.Continue {
			t.Errorf("%s: proven, action %d", name, got.Action)
		}
	}
}
