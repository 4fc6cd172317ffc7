package httpkit

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/fault"
)

func paths(vs []fault.Violation) (out []string) {
	for _, v := range vs {
		out = append(out, v.Path)
	}
	return out
}

// TestRepeatedMembers: a body in which one of two values would be dropped says where. The
// schema decides whether several values in a form are a list.
func TestRepeatedMembers(t *testing.T) {
	const sent = "application/x-www-form-urlencoded"
	const part = "--b\r\nContent-Disposition: form-data; name=\""
	for _, tc := range []struct {
		kind, body string
		want       []string
	}{
		{"application/json", `{"a":1,"b":{"a":1},"c":[{"a":1},{"a":1}]}`, nil},
		{"application/json", `{"a":1,"a":1}`, []string{"a"}},
		{"application/json", `{"a":1,"\u0061":null,"a":2}`, []string{"a", "a"}},
		{"application/json", `{"a":1,"A":2}`, nil},
		{"application/json", `{"a":{"b":[1,{"c":1,"d":[],"c":{}}]},"a":[]}`, []string{"a.b.2.c", "a"}},
		{"application/json", `{"` + strings.Repeat("x", 200) + `":{"a":1,"a":2}}`, []string{strings.Repeat("x", 100) + "….a"}},
		{sent, "a=1&b=2", nil},
		{sent, "a=1&a=2", nil},
		{sent, "a=1&a.b=2", []string{"a"}},
		{sent, "a[]=1&a[k]=2&c[1].d=1&c[1].d.e=2", []string{"a", "c.1.d"}},
		{sent, "a[].b=1&a[].b.c=1&a[].b=2", nil},
		{sent, "a[1]=x&a.b=y", nil},
		{sent, "a[1]=x&a.1=y&a[2]=z", []string{"a.1"}},
		{"multipart/form-data; boundary=b", part + "a\"\r\n\r\n1\r\n" + part + "a.b\"\r\n\r\n1\r\n--b--\r\n", []string{"a"}},
	} {
		r := httptest.NewRequest("POST", "/", strings.NewReader(tc.body))
		r.Header.Set("Content-Type", tc.kind)
		b, err := ReadBody(r)
		if err != nil {
			t.Errorf("%s: %v", tc.body, err)
			continue
		}
		if diff := cmp.Diff(tc.want, paths(b.Repeated)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.body, diff)
		}
	}
	// The names are bounded, in number and in length.
	long := `"` + strings.Repeat("é", 1<<17) + `":{` + strings.TrimSuffix(strings.Repeat(`"k":1,`, 1<<16), ",") + `}`
	r := httptest.NewRequest("POST", "/", strings.NewReader("{"+long+"}"))
	r.Header.Set("Content-Type", "application/json")
	if b, err := ReadBody(r); err != nil || len(b.Repeated) != maxRepeated || len(strings.Join(paths(b.Repeated), "")) > 200*maxRepeated {
		t.Errorf("%d are named, %v", len(b.Repeated), err)
	}
}

// TestDecodeObject: an ambiguous request is refused.
func TestDecodeObject(t *testing.T) {
	for body, want := range map[string]string{
		`{"name":"a","tags":{"x":["1"],"X":["2"]}}`: "",
		`{"name":"a","name":"b"}`:                   "name is given twice",
		`{"name":"a","NAME":"b"}`:                   "NAME is given twice",
		`{"tags":{"x":["1"],"x":["2"]}}`:            "tags.x is given twice",
		`{"name":"a"}{"name":"b"}`:                  "something follows",
		`{"name":"a"} x`:                            "something follows",
		`{"nane":"a"}`:                              "unknown field",
		`{"name":1}`:                                "cannot unmarshal",
		``:                                          "EOF",
	} {
		var in struct {
			Name string              `json:"name"`
			Tags map[string][]string `json:"tags"`
		}
		err := DecodeObject([]byte(body), &in)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", body, err, want)
		}
	}
}
