package engine_test

import (
	"bytes"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/engine"
)

// one is a first level that gives one answer for one token hash and another for all others.
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

// present returns the values of the named headers of a message.
func present(m *message, names []string) (values [][]byte, repeated uint32) {
	for i, n := range names {
		all := m.Headers[n]
		if n == ":method" {
			all = []string{m.Method}
		}
		var value []byte
		if len(all) > 0 {
			value = append([]byte{}, all[0]...)
		}
		if len(all) > 1 {
			repeated |= 1 << i
		}
		values = append(values, value)
	}
	return values, repeated
}

// drive gives a decision what it asks for, except the results of look-ups.
func drive(t interface{ Fatalf(string, ...any) }, p *engine.Program, m *message, tokens engine.Tokens, buf []byte) engine.Verdict {
	req := &engine.Request{Path: []byte(m.Path)}
	req.Headers, req.Repeated = present(m, p.Headers()[:p.Early()])
	for range 3 {
		v := p.Decide(req, tokens, buf)
		switch v.Action {
		case engine.NeedHeaders:
			req.Headers, req.Repeated = present(m, p.Headers())
		case engine.NeedBody:
			req.BodyState, req.Body = engine.BodyRead, []byte(m.Body)
			if len(m.Body) > engine.MaxBody {
				req.BodyState, req.Body = engine.BodyTooLarge, nil
			}
		default:
			return v
		}
	}
	t.Fatalf("the decision does not end")
	return engine.Verdict{}
}

// observe translates a verdict of the engine into an outcome of the oracle.
func observe(p *engine.Program, c *contract.Chain, v engine.Verdict, buf []byte, asked map[contract.Hash]string) outcome {
	switch v.Action {
	case engine.Lookup:
		return outcome{Action: "lookup", Token: asked[v.Hash]}
	case engine.Continue, engine.Issue:
		o := outcome{Action: "issue"}
		if v.Action == engine.Continue {
			o = outcome{Action: "continue", Headers: map[string]string{}}
			for i, s := range v.Headers {
				if s.Len != 0 {
					o.Headers[contract.IdentityHeaders[i]] = string(buf[s.Off : s.Off+s.Len])
				}
			}
		}
		for i, n := range p.Headers() {
			if v.Remove>>i&1 != 0 {
				o.Remove = append(o.Remove, n)
			}
		}
		for i, n := range paramNames(c) {
			if v.HideQuery>>i&1 != 0 {
				o.HideQuery = append(o.HideQuery, n)
			}
			if v.HideBody>>i&1 != 0 {
				o.HideBody = append(o.HideBody, n)
			}
		}
		for _, list := range [][]string{o.Remove, o.HideQuery, o.HideBody} {
			slices.Sort(list)
		}
		return o
	}
	o := refusal(v.Refusal.Status, v.Refusal.Body, "")
	for _, h := range v.Refusal.Headers {
		if h[0] == "www-authenticate" {
			o.Challenge = h[1]
		}
	}
	return o
}

// paramNames returns the names of a chain's credentials in queries and bodies, in the order
// of its plugins.
func paramNames(c *contract.Chain) (names []string) {
	for _, p := range c.Plugins {
		if p.OAuth2 != nil {
			names = append(names, "access_token")
		}
		if p.KeyAuth != nil {
			names = append(names, p.KeyAuth.Names...)
		}
	}
	return names
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
		{"/?access_token=%74&a", "", "t", "s", "s", "b", "", 4, 1},
		{"/?a=b&access_token=t&access%5Ftoken", "", "t", "s", "s", "b", "", 4 | 16 | 32, 1},
		{"/?access_token=t;", "t", "t", "s", "s", "b", "", 4 | 1, 1},
	} {
		f.Add(s.path, s.credential, s.known, s.service, s.bound, s.username, s.scope, s.flags, s.answer)
	}
	f.Fuzz(func(t *testing.T, path, credential, known, service, bound, username, scope string, flags, answer uint8) {
		c, has := fuzzChain(service, username, flags)
		m := message{Method: "GET", Path: path, Headers: map[string][]string{}}
		if has {
			m.Headers["authorization"] = []string{credential}
		}
		record := &contract.Record{
			Version: 1, Revision: 1, Service: bound, Scope: scope, UserID: known, Key: answer&128 != 0,
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
		asked := map[contract.Hash]string{}
		want := (&oracle{chain: c, msg: m, ask: func(sort, text string) knowledge {
			asked[contract.HashToken([]byte(text))] = sort + " " + text
			if text != known {
				return knowledge{answer: level.otherwise}
			}
			return knowledge{level.answer, record}
		}}).decide()
		buf := bytes.Repeat([]byte{0xff}, engine.BufferSize)
		p := compile(c)
		got := observe(p, c, drive(t, p, &m, level, buf), buf, asked)
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("path %q, credential %q (-oracle +engine):\n%s", path, credential, d)
		}
	})
}

// fuzzChain makes a chain from a few bits. Texts that end up in JSON or in a quoted string
// are fixed, because the oracle does not implement their escaping.
func fuzzChain(service, username string, flags uint8) (c *contract.Chain, has bool) {
	o := &contract.OAuth2{Header: "authorization", InBody: true, Global: flags&2 != 0, HideCredentials: flags&4 != 0}
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
	return &contract.Chain{Service: service, Issues: true, Plugins: []contract.Plugin{{ID: "plugin", OAuth2: o}}}, flags&1 != 0
}

// lying is a faulty cache.
type lying struct {
	n      int
	answer contract.Answer
	write  []byte
}

func (l lying) Lookup(_ contract.Hash, dst []byte) (int, contract.Answer) {
	copy(dst, l.write)
	return l.n, l.answer
}

// shown returns a request with one header.
func shown(path, value string) *engine.Request {
	return &engine.Request{Path: []byte(path), Headers: [][]byte{[]byte(value)}}
}

func TestFaultyCacheRefuses(t *testing.T) {
	token, _ := fuzzChain("s", "u", 1|2|16|32)
	key := &contract.Chain{Plugins: []contract.Plugin{{ID: "p", KeyAuth: &contract.KeyAuth{Names: []string{"k"}, InHeader: true}}}}
	for _, c := range []*contract.Chain{token, key} {
		p := compile(c)
		good := (&contract.Record{Service: "s", Key: c == key, Credential: contract.Credential{ID: "c"}}).Pack(nil)
		for name, l := range map[string]lying{
			"negative length":  {-1, contract.Found, good},
			"beyond buffer":    {engine.BufferSize + 1, contract.Found, good},
			"nothing":          {0, contract.Found, nil},
			"short":            {len(good) - 1, contract.Found, good},
			"long":             {len(good) + 1, contract.Found, good},
			"unknown answer":   {len(good), contract.Answer(9), good},
			"lengths overflow": {contract.PackedHeader, contract.Found, bytes.Repeat([]byte{0xff}, contract.PackedHeader)},
		} {
			v := p.Decide(shown("/", "x"), l, make([]byte, engine.BufferSize))
			if v.Action != engine.Refuse || v.Refusal == nil || v.Refusal.Status != 503 {
				t.Errorf("%s: %+v, want a refusal with 503", name, v)
			}
		}
	}
}

func TestShortBufferAndMissingHeadersRefuse(t *testing.T) {
	c, _ := fuzzChain("s", "u", 1|16|32)
	for _, v := range []engine.Verdict{
		compile(c).Decide(shown("/", "x"), lying{}, make([]byte, engine.BufferSize-1)),
		compile(c).Decide(&engine.Request{Path: []byte("/")}, lying{}, make([]byte, engine.BufferSize)),
	} {
		if v.Action != engine.Refuse || v.Refusal.Status != 503 {
			t.Errorf("%+v, want a refusal with 503", v)
		}
	}
}

func TestLookupNamesItsPlugin(t *testing.T) {
	c, _ := fuzzChain("s", "u", 1)
	v := compile(c).Decide(shown("/", "Bearer x"), lying{answer: contract.Miss}, make([]byte, engine.BufferSize))
	want := engine.Verdict{Action: engine.Lookup, Plugin: "plugin", Hash: contract.HashToken([]byte("x"))}
	if v != want {
		t.Errorf("got %+v, want %+v", v, want)
	}
}
