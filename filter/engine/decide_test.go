package engine_test

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/engine"
)

// one answers about one token hash, and otherwise about all others.
type one struct {
	hash      contract.Hash
	packed    []byte
	answer    contract.Answer
	otherwise contract.Answer
}

func (o *one) Lookup(hash contract.Hash, dst []byte) (int, contract.Answer) {
	if hash != o.hash {
		return 0, o.otherwise
	}
	return copy(dst, o.packed), o.answer
}

// observe puts a verdict of the engine into the words of the oracle.
func observe(t *testing.T, v engine.Verdict, buf []byte, token string) outcome {
	t.Helper()
	switch v.Action {
	case engine.Issue:
		return outcome{Action: "issue"}
	case engine.Lookup:
		if v.Hash != contract.HashToken([]byte(token)) {
			t.Errorf("the look-up is not for token %q", token)
		}
		return outcome{Action: "lookup", Token: token}
	case engine.Continue:
		o := outcome{Action: "continue", Remove: v.RemoveCredential, Headers: map[string]string{}}
		for i, s := range v.Headers {
			if s.Len != 0 {
				o.Headers[contract.IdentityHeaders[i]] = string(buf[s.Off : s.Off+s.Len])
			}
		}
		return o
	}
	if v.Headers != [contract.NumIdentityHeaders]contract.Span{} || v.RemoveCredential {
		t.Error("a refusal edits headers")
	}
	o := refusal(v.Refusal.Status, v.Refusal.Body, "")
	for _, h := range v.Refusal.Headers {
		if h[0] == "www-authenticate" {
			o.Challenge = h[1]
		}
	}
	return o
}

func compile(c *contract.Chain) *engine.Program {
	p, err := engine.Compile(c)
	if err != nil {
		return engine.Broken(err.Error())
	}
	return p
}

func FuzzDecide(f *testing.F) {
	type seed struct {
		path, credential, known, service, bound, username, scope string
		flags, answer                                            uint8
	}
	for _, s := range []seed{
		{"/", "Bearer t", "t", "s", "s", "bob", "email phone", 1, 1},
		{"/oauth2/token/?x", "", "t", "s", "s", "bob", "", 0, 0},
		{"/", "t", "t", "s", "", "bob", "a", 2 | 1, 1},
		{"/", "tokeN  t ", "t", "s", "other", "bob\n", " a", 4 | 1, 1},
		{"/", "Basic x y", "t", "", "", "Zoë", "a", 8 | 4 | 1, 2},
		{"/a/oauth2/authorize", "x", "x", "s", "s", " ", "", 16 | 1, 3},
		{"/", "\tbearer\tx\t", "x", "s", "s", "abcdefg\x7f", "", 32 | 1, 1},
		{"/", "x", "x", "s ", "s", "b", "", 64 | 1, 4},
	} {
		f.Add(s.path, s.credential, s.known, s.service, s.bound, s.username, s.scope, s.flags, s.answer)
	}
	f.Fuzz(func(t *testing.T, path, credential, known, service, bound, username, scope string, flags, answer uint8) {
		c, has := fuzzChain(service, username, flags)
		if !has {
			credential = "" // an absent header has no value
		}
		record := &contract.Record{
			Version: 1, Revision: 1, Service: bound, Scope: scope, UserID: known,
			Credential: contract.Credential{ID: "credential", ClientID: "client"},
		}
		if flags&64 == 0 {
			record.Consumer = &contract.Consumer{ID: "consumer", Username: username, CustomID: scope}
		}
		b, err := record.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		if record, err = contract.ParseRecord(b); err != nil {
			return // too long for a record
		}
		level := &one{
			hash: contract.HashToken([]byte(known)), packed: record.Pack(nil),
			answer: contract.Answer(answer % 5), otherwise: contract.Answer(answer / 5 % 3 * 2), // never Found
		}
		token := ""
		want := oracle(c, path, credential, has, func(asked string) knowledge {
			token = asked
			if asked != known {
				return knowledge{answer: level.otherwise}
			}
			return knowledge{level.answer, record}
		})
		buf := bytes.Repeat([]byte{0xff}, engine.BufferSize)
		req := &engine.Request{Path: []byte(path), Credential: []byte(credential), HasCredential: has}
		got := observe(t, compile(c).Decide(req, level, buf), buf, token)
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("path %q, credential %q (-oracle +engine):\n%s", path, credential, d)
		}
	})
}

// fuzzChain makes a chain of a few bits. Texts that end up inside JSON or a
// quoted string are fixed: the oracle does not repeat their escaping.
func fuzzChain(service, username string, flags uint8) (c *contract.Chain, has bool) {
	o := &contract.OAuth2{Header: "authorization", Global: flags&2 != 0, HideCredentials: flags&4 != 0}
	if flags&8 != 0 {
		o.Realm = "the realm"
	}
	if flags&16 != 0 {
		o.Anonymous = &contract.Anonymous{Configured: "nobody"}
		if flags&32 != 0 {
			o.Anonymous.Consumer = &contract.Consumer{ID: "anonymous", Username: username}
			if len(username) > 1024 {
				o.Anonymous.Consumer.Username = ""
			}
		}
	}
	return &contract.Chain{Service: service, Plugins: []contract.Plugin{{ID: "plugin", OAuth2: o}}}, flags&1 != 0
}

// lying is a cache that has gone wrong.
type lying struct {
	n      int
	answer contract.Answer
	write  []byte
}

func (l lying) Lookup(_ contract.Hash, dst []byte) (int, contract.Answer) {
	copy(dst, l.write)
	return l.n, l.answer
}

func TestFaultyCacheRefuses(t *testing.T) {
	c, _ := fuzzChain("s", "u", 1|2|16|32)
	p := compile(c)
	good := (&contract.Record{Service: "s", Credential: contract.Credential{ID: "c"}}).Pack(nil)
	for name, l := range map[string]lying{
		"negative length":  {-1, contract.Found, good},
		"beyond buffer":    {engine.BufferSize + 1, contract.Found, good},
		"nothing":          {0, contract.Found, nil},
		"short":            {len(good) - 1, contract.Found, good},
		"long":             {len(good) + 1, contract.Found, good},
		"unknown answer":   {len(good), contract.Answer(9), good},
		"lengths overflow": {contract.PackedHeader, contract.Found, bytes.Repeat([]byte{0xff}, contract.PackedHeader)},
	} {
		v := p.Decide(&engine.Request{Path: []byte("/"), Credential: []byte("x"), HasCredential: true}, l, make([]byte, engine.BufferSize))
		if v.Action != engine.Refuse || v.Refusal == nil || v.Refusal.Status != 503 {
			t.Errorf("%s: %+v, want a refusal with 503", name, v)
		}
	}
}

func TestShortBufferRefuses(t *testing.T) {
	c, _ := fuzzChain("s", "u", 1|16|32)
	v := compile(c).Decide(&engine.Request{Path: []byte("/")}, lying{}, make([]byte, engine.BufferSize-1))
	if v.Action != engine.Refuse || v.Refusal.Status != 503 {
		t.Errorf("%+v, want a refusal with 503", v)
	}
}

func TestLookupNamesItsPlugin(t *testing.T) {
	c, _ := fuzzChain("s", "u", 1)
	v := compile(c).Decide(&engine.Request{Path: []byte("/"), Credential: []byte("Bearer x"), HasCredential: true},
		lying{answer: contract.Miss}, make([]byte, engine.BufferSize))
	want := engine.Verdict{Action: engine.Lookup, Plugin: "plugin", Hash: contract.HashToken([]byte("x"))}
	if v != want {
		t.Errorf("got %+v, want %+v", v, want)
	}
}
