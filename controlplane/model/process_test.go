package model

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/fault"
)

func sample() *Schema {
	return &Schema{
		Key: "name", CreatedUnit: time.Second,
		Fields: append(Identity(time.Second, true),
			Field{Name: "name", Type: String, Required: true, Auto: func() (any, error) { return "auto", nil }},
			Field{Name: "count", Type: Integer, Default: int64(3), Between: &[2]int64{0, 9}},
			Field{Name: "ratio", Type: Number},
			Field{Name: "on", Type: Boolean},
			Field{Name: "list", Type: Array, Elem: &Field{Type: Integer}},
			Field{Name: "set", Type: Set, Elem: &Field{Type: String}},
			Field{Name: "map", Type: Map, Elem: &Field{Type: Integer}},
			Field{Name: "ref", Type: Foreign, To: "other", Flat: "ref_id"},
			Field{Name: "secret", Type: Integer, Hidden: true},
			Field{Name: "inner", Type: Record, Schema: &Schema{Fields: []Field{
				{Name: "a", Type: Integer, Default: int64(1)}, {Name: "b", Type: Array, Elem: &Field{Type: String}},
			}}},
		),
	}
}

func decode(t testing.TB, text string) map[string]any {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var m map[string]any
	if err := d.Decode(&m); err != nil {
		t.Fatal(err)
	}
	return m
}

// violations returns the messages of an error by path.
func violations(t testing.TB, err error) map[string]string {
	t.Helper()
	e, ok := errors.AsType[*fault.Error](err)
	if !ok {
		t.Fatalf("error %v", err)
	}
	out := map[string]string{}
	for _, v := range e.Violations {
		out[v.Path] = v.Message
	}
	return out
}

func TestProcessReportsEverything(t *testing.T) {
	_, err := sample().Process(OpCreate, decode(t, `{"name":"","count":10,"ratio":"x","on":1,"list":[1,"2",null],"set":"x",
		"map":{"k":"v","n":null},"ref":{"id":"1"},"secret":1,"unknown":1,"inner":{"a":1.5,"z":1},"id":"x","created_at":"now"}`), nil)
	e, ok := errors.AsType[*fault.Error](err)
	if !ok || e.Code != fault.Invalid {
		t.Fatalf("error %v", err)
	}
	got := map[string]string{}
	for _, v := range e.Violations {
		got[v.Path] = v.Message
	}
	want := map[string]string{
		"name": TextEmpty, "count": "value should be between 0 and 9", "ratio": "expected a number", "on": "expected a boolean",
		"list.2": "expected an integer", "list.3": TextRequired, "set": "expected a set", "map.k": "expected an integer", "map.n": TextRequired,
		"ref.id": TextUUID, "secret": TextUnknown, "unknown": TextUnknown, "inner.a": "expected an integer", "inner.z": TextUnknown + `; did you mean "a"?`,
		"id": TextUUID, "created_at": "expected an integer",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("violations (-want +got):\n%s", diff)
	}
}

func TestProcessCompletesAndMerges(t *testing.T) {
	const id = "00000000-0000-4000-8000-00000000000A"
	base := map[string]any{
		"id": nil, "created_at": nil, "updated_at": nil, "name": "auto", "count": int64(3), "ratio": nil, "on": nil, "list": nil,
		"set": nil, "map": nil, "ref": nil, "secret": nil, "inner": nil,
	}
	with := func(changes map[string]any) map[string]any { return merged(base, changes) }
	old := with(map[string]any{"secret": json.Number("7"), "inner": map[string]any{"a": int64(2), "b": []any{"x"}}})
	for _, tc := range []struct {
		name, given string
		op          Op
		old, want   map[string]any
	}{
		{"empty", `{}`, OpCreate, nil, base},
		{"null", `{"count":null}`, OpReplace, nil, with(map[string]any{"count": nil})},
		{"second spelling", `{"ref_id":"` + id + `"}`, OpCreate, nil, with(map[string]any{"ref": map[string]any{"id": strings.ToLower(id)}})},
		{"set", `{"set":["a","b","a"],"list":[1e1,1]}`, OpCreate, nil, with(map[string]any{"set": []any{"a", "b"}, "list": []any{int64(10), int64(1)}})},
		{"record", `{"inner":{}}`, OpCreate, nil, with(map[string]any{"inner": map[string]any{"a": int64(1), "b": nil}})},
		{"patch keeps", `{}`, OpPatch, old, old},
		{"patch merges records", `{"inner":{"a":5}}`, OpPatch, old, with(map[string]any{
			"secret": json.Number("7"), "inner": map[string]any{"a": int64(5), "b": []any{"x"}},
		})},
		{"patch replaces lists", `{"inner":{"b":["y"]},"count":null}`, OpPatch, old, with(map[string]any{
			"count": nil, "secret": json.Number("7"), "inner": map[string]any{"a": int64(2), "b": []any{"y"}},
		})},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w, err := sample().Process(tc.op, decode(t, tc.given), tc.old)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, w.New); diff != "" {
				t.Errorf("entity (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTypeText(t *testing.T) {
	got := sample().TypeText(map[string]any{
		"count": "10", "ratio": "2.5", "on": "true", "list": "7", "set": []any{"a", "1"}, "map": map[string]any{"k": "1"},
		"inner": map[string]any{"a": "1", "b": "x"}, "name": "", "ref": map[string]any{"id": ""}, "other": "",
	}, nil)
	want := map[string]any{
		"count": json.Number("10"), "ratio": json.Number("2.5"), "on": true, "list": []any{json.Number("7")}, "set": []any{"a", "1"},
		"map": map[string]any{"k": json.Number("1")}, "inner": map[string]any{"a": json.Number("1"), "b": []any{"x"}},
		"name": nil, "ref": nil, "other": nil,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("typed (-want +got):\n%s", diff)
	}
	for _, text := range []string{"NaN", "0x10", "Inf", "1_0", "yes", "- 1"} {
		if got := sample().TypeText(map[string]any{"ratio": text}, nil)["ratio"]; got != text {
			t.Errorf("%q becomes %v", text, got)
		}
	}
}

// FuzzProcess: processing any JSON either reports violations or returns an entity that
// processing leaves unchanged.
func FuzzProcess(f *testing.F) {
	f.Add(`{"name":"x","list":[1,2],"map":{"a":1},"inner":{"a":1}}`)
	f.Add(`{"ref":{"id":"00000000-0000-4000-8000-000000000000"},"count":1e0}`)
	f.Add(`{"inner":[],"set":[[]],"ref":1,"ratio":1e999}`)
	f.Fuzz(func(t *testing.T, text string) {
		d := json.NewDecoder(strings.NewReader(text))
		d.UseNumber()
		var given map[string]any
		if d.Decode(&given) != nil {
			return
		}
		w, err := sample().Process(OpCreate, given, nil)
		if err != nil {
			if !fault.Is(err, fault.Invalid) {
				t.Fatalf("error %v", err)
			}
			return
		}
		again := merged(w.New, nil)
		delete(again, "secret")
		w2, err := sample().Process(OpCreate, again, nil)
		if err != nil {
			t.Fatalf("a valid entity is refused: %v", err)
		}
		if diff := cmp.Diff(w.New, w2.New); diff != "" {
			t.Errorf("not stable: %s", diff)
		}
	})
}

// TestNullIsNoAbsence: a value is generated or taken from the default only if the member is
// absent. Null is an error if a value is required.
func TestNullIsNoAbsence(t *testing.T) {
	s := &Schema{Fields: []Field{
		{Name: "auto", Type: String, Required: true, Auto: func() (any, error) { return "made", nil }},
		{Name: "default", Type: Integer, Required: true, Default: int64(1)},
		{Name: "record", Type: Record, Required: true, Schema: &Schema{Fields: []Field{
			{Name: "auto", Type: String, Required: true, Auto: func() (any, error) { return "made", nil }},
		}}},
	}}
	complete := map[string]any{"auto": "old", "default": int64(7), "record": map[string]any{"auto": "old"}}
	for _, op := range []Op{OpCreate, OpReplace, OpPatch} {
		var old map[string]any
		if op != OpCreate {
			old = complete
		}
		_, err := s.Process(op, decode(t, `{"auto":null,"default":null,"record":null}`), old)
		want := map[string]string{"auto": TextRequired, "default": TextRequired, "record": TextRequired}
		if diff := cmp.Diff(want, violations(t, err)); diff != "" {
			t.Errorf("operation %d (-want +got):\n%s", op, diff)
		}
		_, err = s.Process(op, decode(t, `{"record":{"auto":null}}`), old)
		if diff := cmp.Diff(map[string]string{"record.auto": TextRequired}, violations(t, err)); diff != "" {
			t.Errorf("operation %d, inside (-want +got):\n%s", op, diff)
		}
	}
}

// TestNotNull: an optional field that refuses null may be left out, and keeps what is stored then.
func TestNotNull(t *testing.T) {
	s := &Schema{Fields: []Field{{Name: "on", Type: Boolean, NotNull: true}}}
	for _, op := range []Op{OpCreate, OpReplace, OpPatch} {
		_, err := s.Process(op, decode(t, `{"on":null}`), map[string]any{"on": true})
		if diff := cmp.Diff(map[string]string{"on": TextNotNull}, violations(t, err)); diff != "" {
			t.Errorf("operation %d (-want +got):\n%s", op, diff)
		}
		if _, err := s.Process(op, decode(t, `{}`), nil); err != nil {
			t.Errorf("operation %d without it: %v", op, err)
		}
	}
}

// TestReplacementsKeep: a replacement that does not name a field with Keep leaves it
// unchanged, also inside records and for hidden fields. Null clears it.
func TestReplacementsKeep(t *testing.T) {
	s := &Schema{Fields: []Field{
		{Name: "kept", Type: String, Keep: true},
		{Name: "standard", Type: Integer, Required: true, Default: int64(1), Keep: true},
		{Name: "lost", Type: String},
		{Name: "hidden", Type: String, Hidden: true, Keep: true},
		{Name: "record", Type: Record, Required: true, Schema: &Schema{Fields: []Field{
			{Name: "kept", Type: String, Keep: true}, {Name: "lost", Type: String},
		}}},
	}}
	old := map[string]any{
		"kept": "a", "standard": int64(2), "lost": "b", "hidden": "c", "record": map[string]any{"kept": "d", "lost": "e"},
	}
	for given, want := range map[string]map[string]any{
		`{}`: {"kept": "a", "standard": int64(2), "lost": nil, "hidden": "c", "record": map[string]any{"kept": "d", "lost": nil}},
		`{"record":{"lost":"x"}}`: {
			"kept": "a", "standard": int64(2), "lost": nil, "hidden": "c", "record": map[string]any{"kept": "d", "lost": "x"},
		},
		`{"kept":null,"standard":3,"record":{"kept":null}}`: {
			"kept": nil, "standard": int64(3), "lost": nil, "hidden": "c", "record": map[string]any{"kept": nil, "lost": nil},
		},
	} {
		w, err := s.Process(OpReplace, decode(t, given), old)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, w.New); diff != "" {
			t.Errorf("%s (-want +got):\n%s", given, diff)
		}
	}
	w, err := s.Process(OpReplace, decode(t, `{}`), nil)
	if err != nil || w.New["kept"] != nil || w.New["standard"] != int64(1) {
		t.Errorf("where there was nothing: %v, %v", w, err)
	}
}
