package audit

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"math"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"
)

// marshalled is what encoding/json makes of an event: a map, whose keys it sorts, without HTML escapes.
func marshalled(t *testing.T, o Origin, e *Event, sig string) string {
	t.Helper()
	doc := map[string]any{}
	if sig != "" {
		doc[keySignature] = sig
	}
	for _, m := range o.members(e) {
		switch m.form {
		case formText:
			doc[m.key] = m.text
		case formNumber:
			doc[m.key] = m.number
		case formTruth:
			doc[m.key] = m.number != 0
		}
	}
	return encoded(t, doc)
}

func encoded(t *testing.T, v any) string {
	t.Helper()
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// asMarshalled holds the object of an event against that of encoding/json, to the byte, and its signature
// against the object without it.
func asMarshalled(t *testing.T, o Origin, e *Event) {
	t.Helper()
	s := signer(t)
	sig := base64.RawURLEncoding.EncodeToString(s.signature([]byte(marshalled(t, o, e, ""))))
	if got, want := string(o.JSON(e, s)), marshalled(t, o, e, sig); got != want {
		t.Errorf("the object is\n%s\nwant\n%s", got, want)
	}
}

// FuzzAsMarshalled: whatever is in an event, its object is that of encoding/json.
func FuzzAsMarshalled(f *testing.F) {
	f.Add("curl/8", "/p", `{"a":"b"}`, int64(1750688927556), 3, true)
	f.Add("<a>&\u2028\u2029\x7f", "\xff\x00\x1f", "\b\f\n\r\t\"\\/", int64(-1), -1, false)
	f.Add("\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x80", int64(math.MaxInt32), math.MaxInt, false)
	f.Add("\uFFFD", "𐍈", "é\xc3", int64(0), 0, true)
	f.Fuzz(func(t *testing.T, agent, request, before string, at int64, count int, cut bool) {
		e := login()
		e.UserAgent, e.Request, e.Principal, e.Time = agent, request, before, time.UnixMilli(at)
		asMarshalled(t, Origin{Vendor: agent}, e)
		e = administered(Administration{Class: Change, Actor: agent, Action: request, Before: before, After: request + agent, More: count, Count: count, Cut: cut})
		asMarshalled(t, Origin{Vendor: before}, e)
		e.Administration.Class, e.Administration.Status, e.Administration.Reason = Refusal, count, agent
		asMarshalled(t, origin, e)
	})
}

// TestTextsAsMarshalled: each character, and each byte that is none, is written as encoding/json does.
func TestTextsAsMarshalled(t *testing.T) {
	var list []string
	for c := range rune(0x3100) {
		list = append(list, string(c))
	}
	list = append(list, string(unicode.MaxRune), string(utf8.RuneError), string(rune(0xFFFF)), "\xed\xb0\x80", "\xc0\x80", "\xf0\x9f\x98", "")
	for b := range 0x100 {
		list = append(list, string([]byte{byte(b)}), string([]byte{'a', byte(b), 'b'}), string([]byte{0xe2, 0x80, byte(b)}))
	}
	list = append(list, strings.Join(list, ""))
	for _, s := range list {
		if got, want := string(appendText(nil, s)), encoded(t, s); got != want {
			t.Errorf("%q is written %.80s, want %.80s", s, got, want)
		}
	}
}

// TestPlaces: the signature is where its key belongs, whatever keys are there.
func TestPlaces(t *testing.T) {
	for _, e := range []*Event{login(), administered(Administration{Class: Change}), administered(Administration{Class: Refusal}), administered(Administration{Class: Trial})} {
		e.Source = netip.Addr{}
		asMarshalled(t, origin, e)
		if n := len(e.fields()) + 8; n > mostMembers {
			t.Errorf("an event has %d members", n)
		}
	}
}

// mostAllocations is how many an event may cost: the object, the list of its members, the signature, and
// the texts that are made for it.
const mostAllocations = 10

// TestAllocations: an event does not cost more allocations for having more members.
func TestAllocations(t *testing.T) {
	s := signer(t)
	for name, e := range allocating() {
		if n := testing.AllocsPerRun(100, func() { origin.JSON(e, s) }); n > mostAllocations {
			t.Errorf("the object of a %s costs %v allocations", name, n)
		}
	}
}

// allocating are events whose costs are measured.
func allocating() map[string]*Event {
	document := `{"host":"a.example","tags":["<a>","b"],"name":"` + strings.Repeat("x", 1000) + `"}`
	return map[string]*Event{
		"login":  login(),
		"change": administered(Administration{Class: Change, Actor: "user:ann", API: "gateway", Action: "updated", Kind: "service", Name: "s", Members: `["/host"]`, Before: document, After: document}),
	}
}

func BenchmarkJSON(b *testing.B) {
	s := signer(b)
	for name, e := range allocating() {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				origin.JSON(e, s)
			}
		})
	}
}

// BenchmarkSign is the share of the signature in it.
func BenchmarkSign(b *testing.B) {
	s := signer(b)
	line := slices.Repeat([]byte("x"), bytes.MinRead)
	b.ReportAllocs()
	for b.Loop() {
		s.Sign(line)
	}
}
