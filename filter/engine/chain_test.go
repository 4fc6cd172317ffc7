package engine_test

import (
	"bytes"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/engine"
)

// drawAnonymous draws a fallback: none, one without a consumer, or one of three consumers.
func drawAnonymous(t *rapid.T, label string) *contract.Anonymous {
	id := rapid.SampledFrom([]string{"", "", "ghost", "nobody", "guest", "bad\nid"}).Draw(t, label)
	switch id {
	case "":
		return nil
	case "ghost":
		return &contract.Anonymous{Configured: id}
	default:
		return &contract.Anonymous{Configured: "x", Consumer: &contract.Consumer{ID: id, Username: "n-" + strings.TrimSuffix(id, "\nid")}}
	}
}

func drawOAuth2(t *rapid.T) contract.Plugin {
	return contract.Plugin{ID: "o", OAuth2: &contract.OAuth2{
		Header: rapid.SampledFrom([]string{"authorization", "x-api-token", "apikey"}).Draw(t, "header"),
		Realm:  rapid.SampledFrom([]string{"", "r"}).Draw(t, "realm"),
		Global: rapid.Bool().Draw(t, "global"), HideCredentials: rapid.Bool().Draw(t, "hide token"),
		InBody: rapid.Bool().Draw(t, "token in body"), OneConsumer: rapid.Bool().Draw(t, "one consumer"),
		Anonymous: drawAnonymous(t, "token anonymous"),
	}}
}

func drawKeyAuth(t *rapid.T) contract.Plugin {
	return contract.Plugin{ID: "k", KeyAuth: &contract.KeyAuth{
		Names:    rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"apikey", "x-key", "authorization"}), 1, 3, rapid.ID[string]).Draw(t, "names"),
		InHeader: rapid.Bool().Draw(t, "in header"), InQuery: rapid.Bool().Draw(t, "in query"), InBody: rapid.Bool().Draw(t, "in body"),
		HideCredentials: rapid.Bool().Draw(t, "hide key"), SkipPreflight: rapid.Bool().Draw(t, "preflight"),
		Anonymous: drawAnonymous(t, "key anonymous"),
	}}
}

func drawTermination(t *rapid.T) contract.Plugin {
	p := &contract.Termination{Consumers: map[string]contract.Answered{}}
	trigger := rapid.SampledFrom([]string{"", "x-stop"})
	if rapid.Bool().Draw(t, "default") {
		p.Default = &contract.Answered{Status: 503, Body: "default", Trigger: trigger.Draw(t, "trigger")}
	}
	for _, id := range []string{"nobody", "guest", "c-token", "c-key"} {
		if rapid.IntRange(0, 3).Draw(t, id) == 0 {
			p.Consumers[id] = contract.Answered{Status: 403, Body: id, Trigger: trigger.Draw(t, "trigger of "+id)}
		}
	}
	return contract.Plugin{ID: "t", Termination: p}
}

func drawChain(t *rapid.T) *contract.Chain {
	c := &contract.Chain{Service: rapid.SampledFrom([]string{"s", ""}).Draw(t, "service"), Issues: rapid.Bool().Draw(t, "issues")}
	kinds := rapid.SampledFrom([]string{"o", "k", "ok", "ko", "ot", "kt", "okt", "kot", "t"}).Draw(t, "kinds")
	for _, k := range kinds {
		switch k {
		case 'o':
			c.Plugins = append(c.Plugins, drawOAuth2(t))
		case 'k':
			c.Plugins = append(c.Plugins, drawKeyAuth(t))
		case 't':
			c.Plugins = append(c.Plugins, drawTermination(t))
		}
	}
	return c
}

// texts are what requests present as token or key.
var texts = []string{"good", "shared", "global", "foreign", "nameless", "evil", "key", "unknown", "miss", "down", "", strings.Repeat("l", 5000), "two words"}

// knows is the authority. Its answer for a text depends on whether the text is presented as
// a token or as a key. For a key it may return a record that is valid for tokens only.
func knows(sort, text string) knowledge {
	r := &contract.Record{
		Version: 1, Revision: 1, Service: "s", Scope: "a b", UserID: "u", Key: sort == "key",
		Credential: contract.Credential{ID: "c", ClientID: "id-" + sort}, Consumer: &contract.Consumer{ID: "c-" + sort, Username: "n", CustomID: "7"},
	}
	switch text {
	case "good", "two words":
	case "shared":
		r.Consumer.ID = "c-shared"
	case "global":
		r.Service = ""
	case "foreign":
		r.Service = "other"
	case "nameless":
		r.Consumer = nil
	case "evil":
		r.Consumer.Username = "a\r\nb"
	case "key": // of the other sort
		r.Key = !r.Key
	case "miss":
		return knowledge{answer: contract.Miss}
	case "down":
		return knowledge{answer: contract.Unavailable}
	default:
		return knowledge{answer: contract.Unknown}
	}
	return knowledge{contract.Found, r}
}

// authority answers like knows, but is asked for hashes.
type authority struct{ words map[contract.Hash]string }

func newAuthority() *authority {
	a := &authority{map[contract.Hash]string{}}
	for _, text := range texts {
		a.words[contract.HashToken([]byte(text))] = "token " + text
		a.words[contract.HashKey([]byte(text))] = "key " + text
	}
	return a
}

func (a *authority) Lookup(hash contract.Hash, dst []byte) (int, contract.Answer) {
	sort, text, _ := strings.Cut(a.words[hash], " ")
	k := knows(sort, text)
	if k.answer != contract.Found {
		return 0, k.answer
	}
	return copy(dst, k.record.Pack(nil)), contract.Found
}

func drawPairs(t *rapid.T, label string) string {
	var pairs []string
	for range rapid.IntRange(0, 4).Draw(t, label) {
		name := rapid.SampledFrom([]string{"access_token", "apikey", "x-key", "APIkey", "authorization", "x-stop", "a"}).Draw(t, label+" name")
		value := url.QueryEscape(rapid.SampledFrom(texts).Draw(t, label+" value"))
		pairs = append(pairs, name+rapid.SampledFrom([]string{"=" + value, "=" + value, "=" + value, "", "=%", "=a;b"}).Draw(t, label+" form"))
	}
	return strings.Join(pairs, "&")
}

func drawMessage(t *rapid.T) message {
	m := message{
		Method:  rapid.SampledFrom([]string{"GET", "POST", "PUT", "OPTIONS", "DELETE"}).Draw(t, "method"),
		Path:    rapid.SampledFrom([]string{"/", "/a", "/oauth2/token", "/x/oauth2/authorize/"}).Draw(t, "path"),
		Headers: map[string][]string{},
	}
	if q := drawPairs(t, "query"); q != "" {
		m.Path += "?" + q
	}
	for _, n := range []string{"authorization", "x-api-token", "apikey", "x-key", "x-stop"} {
		for range rapid.SampledFrom([]int{0, 0, 0, 1, 1, 2}).Draw(t, "count of "+n) {
			scheme := rapid.SampledFrom([]string{"", "Bearer ", "token  ", "Basic "}).Draw(t, "scheme")
			m.Headers[n] = append(m.Headers[n], scheme+rapid.SampledFrom(texts).Draw(t, n))
		}
	}
	switch rapid.SampledFrom([]string{"", "form", "json", "text"}).Draw(t, "type") {
	case "form":
		m.Headers["content-type"] = []string{"application/x-www-form-urlencoded; charset=utf-8"}
		m.Body = drawPairs(t, "form")
	case "json":
		m.Headers["content-type"] = []string{"application/json"}
		m.Body = drawObject(t)
	case "text":
		m.Headers["content-type"] = []string{"text/plain"}
		m.Body = "access_token=good&apikey=good"
	}
	return m
}

func drawObject(t *rapid.T) string {
	var members []string
	for range rapid.IntRange(0, 3).Draw(t, "members") {
		name := rapid.SampledFrom([]string{`"access_token"`, `"apikey"`, `"x-\u006bey"`, `"a"`}).Draw(t, "member")
		value := rapid.SampledFrom([]string{`"good"`, `"g\u006fod"`, `""`, `1`, `null`, `["good"]`, `{"a":[]}`, `bad`}).Draw(t, "value")
		members = append(members, name+": "+value)
	}
	return "{" + strings.Join(members, " ,") + "}"
}

// TestChainsAsRuled compares the engine with the rules for chains of one or several plugins.
// It draws random chains, requests and answers of the cache.
func TestChainsAsRuled(t *testing.T) {
	tokens := newAuthority()
	rapid.Check(t, func(t *rapid.T) {
		c, m := drawChain(t), drawMessage(t)
		if _, err := engine.Compile(c); err != nil {
			t.Fatalf("chain does not compile: %v", err)
		}
		want := (&oracle{chain: c, msg: m, ask: knows}).decide()
		if want.Action == "lookup" {
			want = outcome{Action: "lookup", Token: want.Token}
		}
		buf := bytes.Repeat([]byte{0xff}, engine.BufferSize)
		p := compile(c)
		v := drive(t, p, &m, tokens, buf)
		got := observe(p, c, v, buf, tokens.words)
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%+v (-ruled +engine):\n%s", m, d)
		}
		if v.Action == engine.Refuse && v.Remove|uint32(v.HideQuery|v.HideBody) != 0 {
			t.Errorf("a refusal edits the request: %+v", v)
		}
		if v.Action == engine.Refuse {
			namedByNobodyElse(t, &v, buf)
		}
	})
}

// namedByNobodyElse checks that a refusal names to the log only consumers from records, or
// the anonymous consumer. No byte of the name may come from the client, because it could be
// part of a credential.
func namedByNobodyElse(t *rapid.T, v *engine.Verdict, buf []byte) {
	for _, h := range []contract.Header{contract.HeaderConsumerID, contract.HeaderConsumerUsername, contract.HeaderCredentialIdentifier} {
		s := v.Headers[h]
		switch got := string(buf[s.Off : s.Off+s.Len]); got {
		case "", "c-token", "c-key", "c-shared", "n", "a\r\nb", "id-token", "id-key", "nobody", "guest", "n-nobody", "n-guest":
		default:
			t.Errorf("the log of a refusal names %q", got)
		}
	}
}
