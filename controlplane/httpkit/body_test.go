package httpkit

import (
	"errors"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFormNames(t *testing.T) {
	for _, tc := range []struct {
		form string
		want map[string]any
	}{
		{"", map[string]any{}},
		{"a=x", map[string]any{"a": "x"}},
		{"a=x&a=y", map[string]any{"a": []any{"x", "y"}}},
		{"a=x,y", map[string]any{"a": "x,y"}},
		{"a[]=x", map[string]any{"a": []any{"x"}}},
		{"a[]=x&a[]=y", map[string]any{"a": []any{"x", "y"}}},
		{"a[2]=y&a[1]=x", map[string]any{"a": []any{"x", "y"}}},
		{"a.b=v", map[string]any{"a": map[string]any{"b": "v"}}},
		{"a.b[1]=v&a.c=w", map[string]any{"a": map[string]any{"b": []any{"v"}, "c": "w"}}},
		{"a[k]=v", map[string]any{"a": map[string]any{"k": "v"}}},
		{"a[k].c=v", map[string]any{"a": map[string]any{"k": map[string]any{"c": "v"}}}},
		{"headers.x-ver=1", map[string]any{"headers": map[string]any{"x-ver": "1"}}},
		{"a%5B%5D=%20x+y", map[string]any{"a": []any{" x y"}}},
		{"a[0]=x", map[string]any{"a": map[string]any{"0": "x"}}},
		{"a[1=x&.b=y&c.=z&=w&d..e=1", map[string]any{"a[1": "x", ".b": "y", "c.": "z", "": "w", "d..e": "1"}},
		{"a=x&a.b=y", map[string]any{"a": map[string]any{"b": "y"}}},
		{strings.Repeat("a.", 40) + "b=x", map[string]any{strings.Repeat("a.", 40) + "b": "x"}},
	} {
		args, err := parseArguments(tc.form, errNotForm, errArguments)
		if err != nil {
			t.Errorf("%s: %v", tc.form, err)
			continue
		}
		if diff := cmp.Diff(tc.want, form(args).Values); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.form, diff)
		}
	}
}

func TestDepthIsLimitedBeforeParsing(t *testing.T) {
	deep := func(n int) string { return `{"a":` + strings.Repeat("[", n-1) + strings.Repeat("]", n-1) + "}" }
	if _, err := decodeJSON([]byte(deep(MaxDepth))); err != nil {
		t.Errorf("depth %d: %v", MaxDepth, err)
	}
	if _, err := decodeJSON([]byte(deep(MaxDepth + 1))); err == nil {
		t.Errorf("depth %d passes", MaxDepth+1)
	}
	if _, err := decodeJSON([]byte(`{"a":"` + strings.Repeat(`[\"`, 100) + `"}`)); err != nil {
		t.Errorf("brackets in a text count: %v", err)
	}
}

func FuzzForm(f *testing.F) {
	for _, s := range []string{"a=1&b[]=2&b[]=3", "a[1].b[k]=x", "a.b.c=%zz", "[[[=]]]", "a[999999999999]=1", "=&.&[]=", "a[1]=x&a[1]=y&a[]=z"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		args, err := parseArguments(s, errNotForm, errArguments)
		if err != nil {
			return
		}
		if got := leaves(form(args).Values); got > len(args) {
			t.Errorf("%d arguments become %d values", len(args), got)
		}
	})
}

func leaves(v any) int {
	n := 0
	switch v := v.(type) {
	case map[string]any:
		for _, e := range v {
			n += leaves(e)
		}
	case []any:
		for _, e := range v {
			n += leaves(e)
		}
	default:
		n = 1
	}
	return n
}

func FuzzBody(f *testing.F) {
	f.Add("application/json", `{"a":[1,{"b":null}]}`)
	f.Add("application/json", `{"a":1} x`)
	f.Add("multipart/form-data; boundary=b", "--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nx\r\n--b--\r\n")
	f.Add("multipart/form-data", "--")
	f.Add("text/plain; charset", "x")
	f.Fuzz(func(t *testing.T, kind, body string) {
		r := httptest.NewRequest("POST", "/", strings.NewReader(body))
		r.Header.Set("Content-Type", kind)
		b, err := ReadBody(r)
		if _, known := errors.AsType[*BodyError](err); err != nil && !known {
			t.Fatalf("error %v is not a body error", err)
		}
		if err == nil && b.Values == nil {
			t.Error("neither values nor an error")
		}
	})
}
