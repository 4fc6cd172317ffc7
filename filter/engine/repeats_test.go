package engine_test

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/engine"
)

// tellsNothing is what [engine.Program.QueryNames] says of queries.
func tellsNothing(query string, names []string) bool {
	return len(query) < 1000 && !strings.ContainsAny(query, "%+") &&
		!slices.ContainsFunc(names, func(n string) bool { return strings.Contains(strings.ToLower(query), n) })
}

// another draws a request that has the early headers and the query of m, and may differ in all else that a
// verdict which repeats must not depend on.
func another(t *rapid.T, m *message, early, names []string) message {
	o := drawMessage(t)
	_, query, _ := strings.Cut(m.Path, "?")
	if tellsNothing(query, names) {
		query = rapid.SampledFrom([]string{"", "a", "b=c&d", "a=b;c"}).Filter(func(s string) bool { return tellsNothing(s, names) }).Draw(t, "another query")
	}
	o.Path = rapid.SampledFrom([]string{"/", "/a", "/b/c", "/oauth2", "/x/oauth2/other"}).Draw(t, "another path") + "?" + query
	o.Headers = maps.Clone(o.Headers)
	for _, n := range early {
		if n == ":method" {
			o.Method = m.Method
			continue
		}
		delete(o.Headers, n)
		if values, ok := m.Headers[n]; ok {
			o.Headers[n] = values
		}
	}
	return o
}

// counted notes what is asked.
type counted struct {
	*authority
	asked []contract.Hash
}

func (c *counted) Lookup(hash contract.Hash, dst []byte) (int, contract.Answer) {
	c.asked = append(c.asked, hash)
	return c.authority.Lookup(hash, dst)
}

// TestVerdictsThatRepeat: what is said to repeat is what the rules say of any other request
// with the same headers as far as they were read and the same query, whatever else it has, for as long as the one
// token that was asked for is good.
func TestVerdictsThatRepeat(t *testing.T) {
	authority, repeats := newAuthority(), 0
	rapid.Check(t, func(t *rapid.T) {
		c, m := drawChain(t), drawMessage(t)
		p := compile(c)
		buf := bytes.Repeat([]byte{0xff}, engine.BufferSize)
		early := p.Headers()[:rapid.SampledFrom([]int{p.Early(), len(p.Headers())}).Draw(t, "headers")]
		tokens := &counted{authority: authority}
		req := &engine.Request{Path: []byte(m.Path), BodyState: engine.BodyState(rapid.IntRange(0, 2).Draw(t, "body"))}
		if req.BodyState == engine.BodyRead {
			req.Body = []byte(m.Body)
		}
		req.Headers, req.Repeated = present(&m, early)
		v := p.Decide(req, tokens, buf)
		if !v.Repeats {
			return
		}
		repeats++
		got := observe(p, c, v, buf, authority.words)
		sort, text, _ := strings.Cut(authority.words[v.Hash], " ")
		if len(tokens.asked) != 1 || tokens.asked[0] != v.Hash || knows(sort, text).answer != contract.Found {
			t.Errorf("%+v repeats for as long as %q is good, and asked for %d", m, text, len(tokens.asked))
		}
		for range 5 {
			o := another(t, &m, early, p.QueryNames())
			if d := cmp.Diff((&oracle{chain: c, msg: o, ask: knows}).decide(), got); d != "" {
				t.Errorf("%+v\nafter %+v (-ruled +repeated):\n%s", o, m, d)
			}
		}
	})
	if repeats == 0 {
		t.Error("nothing repeats")
	}
}
