package model

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// part and everything have one field of each sort that tags can say.
type part struct {
	Weights []int             `json:"weights" jsonschema:"default=1,default=2,minimum=0,maximum=9"`
	Notes   map[string]string `json:"notes,omitempty"`
}

// TestRulesOfOneName: of two checks of one name, one would be obeyed by nobody.
func TestRulesOfOneName(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("nobody complains")
		}
	}()
	testRules.With(Rules{Checks: map[string]func(any) string{"even": even}})
}

type everything struct {
	Name  string         `json:"name" jsonschema:"maxLength=8,enum=a,enum=b,default=a" jsonschema_extras:"x-check=even,x-unique=true"`
	Share float64        `json:"share" jsonschema:"default=1,minimum=0,maximum=2"`
	On    *bool          `json:"on,omitempty" jsonschema_extras:"x-keep=true"`
	Owner string         `json:"owner" jsonschema_extras:"x-refers-to=person,x-by=username,x-flat=owner_id,x-on-delete=cascade"`
	Tags  []string       `json:"tags,omitempty" jsonschema:"uniqueItems=true,minItems=1,maxItems=9,maxLength=4" jsonschema_extras:"x-each-check=even,x-listed=true"`
	Held  []string       `json:"held,omitempty" jsonschema_extras:"x-holds=thing"`
	Token string         `json:"token" jsonschema_extras:"x-generated=dice,x-unique=secret,x-announce=true"`
	Part  part           `json:"part"`
	TTL   Virtual[int64] `json:"ttl,omitzero" jsonschema_extras:"x-meta=true"`
	Title string         `json:"title,omitempty" jsonschema_extras:"x-chars=2..5"`
	Until int64          `json:"until,omitempty" jsonschema_extras:"x-hidden=true"`
}

func even(v any) string {
	if len(v.(string))%2 != 0 {
		return "odd"
	}
	return ""
}

var testRules = &Rules{
	Checks:     map[string]func(any) string{"even": even},
	Generators: map[string]func() (any, error){"dice": func() (any, error) { return "4", nil }},
}

// TestFieldsFollowFromTags: each word of a tag is the member of the field that it means.
func TestFieldsFollowFromTags(t *testing.T) {
	got := testRules.Fields(everything{})
	// Functions cannot be compared; what they do is.
	for i := range got {
		f := &got[i]
		if f.Name == "name" && f.Check("abc") != "odd" || f.Name == "tags" && f.Elem.Check("abc") != "odd" {
			t.Errorf("the check of %s is another one", f.Name)
		}
		if f.Name == "token" {
			if v, err := f.Auto(); v != "4" || err != nil {
				t.Errorf("generated %v, %v", v, err)
			}
		}
		f.Check, f.Auto = nil, nil
		if f.Elem != nil {
			f.Elem.Check = nil
		}
	}
	want := []Field{
		{Name: "name", Type: String, Required: true, Default: "a", OneOf: []string{"a", "b"}, MaxLen: 8},
		{Name: "share", Type: Number, Required: true, Default: 1.0, Between: &[2]int64{0, 2}},
		{Name: "on", Type: Boolean, Keep: true},
		{Name: "owner", Type: Foreign, Required: true, To: "person", By: "username", Flat: "owner_id"},
		{Name: "tags", Type: Set, MinElements: 1, MostElements: 9, Elem: &Field{Type: String, MaxLen: 4}},
		{Name: "held", Type: Array, Elem: &Field{Type: String}},
		{Name: "token", Type: String, Required: true, Announce: true},
		{Name: "part", Type: Record, Required: true, Schema: &Schema{Fields: []Field{
			{Name: "weights", Type: Array, Required: true, Default: []any{int64(1), int64(2)}, Elem: &Field{Type: Integer, Between: &[2]int64{0, 9}}},
			{Name: "notes", Type: Map, Elem: &Field{Type: String}},
		}}},
		{Name: "ttl", Type: Integer, Meta: true},
		{Name: "title", Type: String, Chars: &[2]int{2, 5}},
		{Name: "until", Type: Integer, Hidden: true},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
}

// TestKindFollowsFromTags: indexes and references read the fields that they are named
// after, and stand before those that a kind lists itself.
func TestKindFollowsFromTags(t *testing.T) {
	k := testRules.Describe(everything{}, Kind{
		Name: "whole", Unique: []Index{{Name: "own"}},
		Schema: &Schema{Key: "name", CreatedUnit: time.Second, KeyIndex: func(s string) string { return "folded " + s }},
	})
	spec := k.New().(*everything)
	for _, u := range k.Unique[:2] {
		if v, ok := u.Value(spec); ok {
			t.Errorf("%s of nothing is %q", u.Name, v)
		}
	}
	spec.Name, spec.Owner, spec.Token, spec.Tags, spec.Held = "n", "o", "t", []string{"x", "y"}, []string{"h"}
	var found []any
	for _, u := range k.Unique[:2] {
		v, _ := u.Value(spec)
		found = append(found, u.Name, u.Secret, v)
	}
	owner, _ := k.Refs[0].Target(spec)
	found = append(found, k.Unique[2].Name,
		k.Refs[0].Name, k.Refs[0].To, k.Refs[0].OnDelete, owner,
		k.Lists[0].Name, k.Lists[0].Values(spec), k.Holds[0].Name, k.Holds[0].To, k.Holds[0].Targets(spec), k.Schema.Fields[0].Name)
	want := []any{
		"name", false, "folded n", "token", true, "t", "own", "owner", "person", Cascade, "o",
		"tags", []string{"x", "y"}, "held", "thing", []string{"h"}, FieldID,
	}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestReferenceToAnotherScope: a member says where the target is, if that is elsewhere.
func TestReferenceToAnotherScope(t *testing.T) {
	type guest struct {
		Host string `json:"host,omitempty" jsonschema_extras:"x-refers-to=person,x-on-delete=cascade,x-in=town"`
		Town string `json:"town,omitempty"`
		Pet  string `json:"pet,omitempty" jsonschema_extras:"x-refers-to=pet"`
	}
	k := Describe(guest{}, Kind{Name: "guest"})
	for spec, want := range map[guest]Key{
		{Host: "h"}:            {Kind: "person", Scope: "here", Name: "h"},
		{Host: "h", Town: "x"}: {Kind: "person", Scope: "x", Name: "h"},
		{Town: "x"}:            {},
	} {
		if key, ok := k.Refs[0].Key(&Resource{Kind: k, Scope: "here", Spec: &spec}); key != want || ok != (want != Key{}) {
			t.Errorf("%+v refers to %v, %v", spec, key, ok)
		}
	}
	spec := guest{Pet: "p", Town: "x"}
	if key, _ := k.Refs[1].Key(&Resource{Kind: k, Scope: "here", Spec: &spec}); key != (Key{Kind: "pet", Scope: "here", Name: "p"}) {
		t.Errorf("another reference is elsewhere, too: %v", key)
	}
}

// TestWrongTagsPanic: a tag that means nothing is found when the program starts.
func TestWrongTagsPanic(t *testing.T) {
	for name, spec := range map[string]any{
		"no such check": struct {
			A string `json:"a" jsonschema_extras:"x-check=nobody"`
		}{},
		"one bound": struct {
			A int `json:"a" jsonschema:"minimum=1"`
		}{},
		"no number": struct {
			A []int `json:"a" jsonschema:"default=one"`
		}{},
		"a mistyped word": struct {
			A string `json:"a" jsonschema_extras:"x-hiden=true"`
		}{},
		"a mistyped value": struct {
			A string `json:"a" jsonschema_extras:"x-unique=scret"`
		}{},
		"a reference of no sort": struct {
			A string `json:"a" jsonschema_extras:"x-refers-to=b,x-on-delete=casade"`
		}{},
		"a reference to another scope that refuses": struct {
			A string `json:"a" jsonschema_extras:"x-refers-to=b,x-in=c"`
			C string `json:"c"`
		}{},
		"a scope that no member holds": struct {
			A string `json:"a" jsonschema_extras:"x-refers-to=b,x-in=c,x-on-delete=cascade"`
		}{},
		"no type": struct {
			A any `json:"a"`
		}{},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: nobody complains", name)
				}
			}()
			testRules.Describe(spec, Kind{Name: name, Schema: &Schema{}})
		}()
	}
}
