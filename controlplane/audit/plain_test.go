package audit

import (
	"encoding/json"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"
)

// asJSON is what encoding/json writes of an event.
func asJSON(t testing.TB, e *Event) string {
	t.Helper()
	b, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// readsAlike reads an event, and holds it against what encoding/json reads. It reports whether it was plain.
func readsAlike(t *testing.T, text string) bool {
	t.Helper()
	got, ok := ReadPlain([]byte(text))
	if !ok {
		return false
	}
	var want Event
	if err := json.Unmarshal([]byte(text), &want); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%q is read\n%#v, want\n%#v, %v", text, got, want, err)
	}
	return true
}

// FuzzReadPlain: whatever is read is what encoding/json reads.
func FuzzReadPlain(f *testing.F) {
	f.Add(asJSON(f, login()), "curl/8", "2001:db8::1%eth0", int64(1750688927556), 0)
	f.Add(`{"id":"a"}`, "<a>&\u2028\x7f\xff", "", int64(-1), 30)
	f.Add("", "\"\\\b", "192.0.2.1", int64(0), 60)
	f.Fuzz(func(t *testing.T, text, some, source string, at int64, place int) {
		readsAlike(t, text)
		e := login()
		e.UserAgent, e.Trace, e.Time = some, source, time.UnixMilli(at)
		if e.Source, _ = netip.ParseAddr(source); at < 0 || at > 1<<40 {
			e.Time = time.Time{}
		}
		text = asJSON(t, e)
		readsAlike(t, text)
		if place >= 0 && place <= len(text) {
			readsAlike(t, text[:place]+some+text[place:])
		}
	})
}

// TestLoginsArePlain: the usual ones are, with and without each member; whoever adds a member reads it, too.
func TestLoginsArePlain(t *testing.T) {
	e := login()
	v := reflect.ValueOf(e).Elem()
	for i := range v.NumField() {
		if name := v.Type().Field(i).Name; v.Field(i).IsZero() != (name == "Administration") {
			t.Errorf("%s of the login of the tests is %v", name, v.Field(i))
		}
	}
	if !readsAlike(t, asJSON(t, e)) {
		t.Error("a login is not plain")
	}
	for i := range v.NumField() {
		e = login()
		of := reflect.ValueOf(e).Elem().Field(i)
		of.SetZero()
		if !readsAlike(t, asJSON(t, e)) {
			t.Errorf("a login without %s is not plain", v.Type().Field(i).Name)
		}
	}
	for _, e := range []*Event{
		{Time: time.Unix(0, 1000).UTC(), Source: netip.MustParseAddr("::ffff:192.0.2.1")},
		{Time: time.Unix(1, 0).In(time.FixedZone("", 3600)), Source: netip.MustParseAddr("fe80::1%eth0"), UserAgent: "é 𐍈 \x7f"},
	} {
		if !readsAlike(t, asJSON(t, e)) {
			t.Errorf("%+v is not plain", e)
		}
	}
}

// TestWhatIsNotPlain: what has another form is left to encoding/json.
func TestWhatIsNotPlain(t *testing.T) {
	usual := asJSON(t, login())
	for what, text := range map[string]string{
		"nothing":                "",
		"null":                   "null",
		"something behind it":    usual + " ",
		"another member":         strings.TrimSuffix(usual, "}") + `,"sinks_only":true}`,
		"a member twice":         strings.TrimSuffix(usual, "}") + `,"id":"x"}`,
		"white space":            strings.Replace(usual, ",", ", ", 1),
		"a member less":          strings.Replace(usual, `"trace":"3360194145499877252"`, "", 1),
		"a broken end":           strings.TrimSuffix(usual, `"}`),
		"another case":           strings.Replace(usual, `"id"`, `"ID"`, 1),
		"a number as a text":     strings.Replace(usual, `"curl/8.5.0"`, `8`, 1),
		"an escape":              strings.Replace(usual, "curl", `\u0063url`, 1),
		"an escaped quote":       strings.Replace(usual, "curl", `\"`, 1),
		"a line break":           strings.Replace(usual, "curl", "\n", 1),
		"bytes that are no text": strings.Replace(usual, "curl", "\xff", 1),
		"no time":                strings.Replace(usual, `"time":"2`, `"time":"x`, 1),
		"an empty time":          strings.Replace(usual, `"time":"`, `"time":"","x":"`, 1),
		"no address":             strings.Replace(usual, "192.0.2.22", "192.0.2.256", 1),
		"only as many quotes":    `x"2025-06-23T14:28:47Z"x"x""x"x"x"x"x"x"}`,
		"an administration":      asJSON(t, administered(Administration{Class: Change})),
	} {
		if text == usual {
			t.Fatalf("%s: nothing is replaced", what)
		}
		if got, ok := ReadPlain([]byte(text)); ok || !reflect.DeepEqual(got, Event{}) {
			t.Errorf("%s: %s is read as %+v", what, text, got)
		}
	}
}

func BenchmarkRead(b *testing.B) {
	text := []byte(asJSON(b, login()))
	b.Run("plain", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			ReadPlain(text)
		}
	})
	b.Run("encoding/json", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_ = json.Unmarshal(text, new(Event))
		}
	})
}
