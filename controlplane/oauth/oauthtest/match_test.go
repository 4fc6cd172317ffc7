package oauthtest

import (
	"net/http"
	"testing"
)

func TestCompare(t *testing.T) {
	w := &World{vars: map[string]string{"t": "token"}}
	got := &Response{
		Status: 200, Header: http.Header{"X-A": {"1", "2"}},
		Body: `{"a":"token","n":5,"r":"abcdefghijklmnopqrstuvwxyz012345","l":[1,"x"],"headers":{"X-B":["b"]},"path":"/x","body":"","t":"7200","s":"true"}`,
	}
	text, empty := "<any>", ""
	for name, tc := range map[string]struct {
		want Expect
		fits bool
	}{
		"nothing":                  {Expect{}, true},
		"status":                   {Expect{Status: 200}, true},
		"another status":           {Expect{Status: 201}, false},
		"members":                  {Expect{Has: map[string]any{"a": "${t}", "n": "<int>", "r": "<random>", "l": []any{1.0, "x"}, "z": nil}}, true},
		"a number as text":         {Expect{Has: map[string]any{"t": 7200.0}}, false},
		"text as a number":         {Expect{Has: map[string]any{"n": "5"}}, false},
		"<int> as text":            {Expect{Has: map[string]any{"t": "<int>"}}, false},
		"a flag as text":           {Expect{Has: map[string]any{"s": true}}, false},
		"null as text":             {Expect{Body: map[string]any{"n": nil}}, false},
		"a number of a list":       {Expect{Has: map[string]any{"l": []any{"1", "x"}}}, false},
		"a wrong member":           {Expect{Has: map[string]any{"a": "t"}}, false},
		"a member too many":        {Expect{Has: map[string]any{"a": nil}}, false},
		"a member that is missing": {Expect{Has: map[string]any{"z": "<any>"}}, false},
		"not all members":          {Expect{Body: map[string]any{"a": "token"}}, false},
		"another list":             {Expect{Has: map[string]any{"l": []any{1.0}}}, false},
		"an error":                 {Expect{Error: "a / b"}, false},
		"a redirect":               {Expect{Redirect: "<any>"}, false},
		"text":                     {Expect{Text: &text}, true},
		"no text":                  {Expect{Text: &empty}, false},
		"headers":                  {Expect{Answer: map[string]string{"X-A": "1|2", "X-Z": ""}}, true},
		"a wrong header":           {Expect{Answer: map[string]string{"X-A": ""}}, false},
		"upstream":                 {Expect{Upstream: &Received{Path: "/x", Headers: map[string]string{"X-B": "b", "X-C": ""}}}, true},
		"a wrong upstream":         {Expect{Upstream: &Received{Headers: map[string]string{"X-B": ""}}}, false},
		"another path":             {Expect{Upstream: &Received{Path: "/y"}}, false},
		"another body":             {Expect{Upstream: &Received{Body: &text}}, true},
	} {
		if err := w.compare(&tc.want, got); (err == nil) != tc.fits {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCasesSayWhatTheyShow(t *testing.T) {
	cases, err := Cases()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		if c.Rule == "" || len(c.Steps) == 0 {
			t.Errorf("%s has no rule or no steps", c.Name)
		}
		if c.Needs != "" && c.Needs != "gateway" {
			t.Errorf("%s needs %q", c.Name, c.Needs)
		}
		for i, s := range c.Steps {
			if s.Admin == nil && s.Status == 0 && s.Answer == nil {
				t.Errorf("%s: step %d expects no status", c.Name, i+1)
			}
		}
	}
}
