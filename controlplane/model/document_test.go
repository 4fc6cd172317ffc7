package model_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
)

// span decodes itself, like the durations of the mesh.
type span time.Duration

func (d span) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(d).String()) }

func (d *span) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return errors.New("not a string")
	}
	v, err := time.ParseDuration(s)
	*d = span(v)
	return err
}

// ordered keeps its text, so that a test sees the text that self-decoding types get.
type ordered string

func (o ordered) MarshalJSON() ([]byte, error)  { return []byte(o), nil }
func (o *ordered) UnmarshalJSON(b []byte) error { *o = ordered(b); return nil }

type tags map[string]string

type ends struct {
	Sources []struct {
		Match tags `json:"match,omitempty"`
	} `json:"sources,omitempty"`
}

type paper struct {
	model.Labelled
	ends
	Ends
	Conf *paperConf `json:"conf,omitempty"`
}

// Ends is embedded.
type Ends struct {
	Destinations []tags `json:"destinations,omitempty"`
}

type paperConf struct {
	UseHTTP1 bool              `json:"useHttp1,omitempty"`
	Retries  uint32            `json:"numRetries,omitempty"`
	Weight   *uint32           `json:"weight,omitempty"`
	Ring     int64             `json:"ring,omitempty"`
	Ratio    *float64          `json:"ratio,omitempty"`
	Mode     string            `json:"mode,omitempty" jsonschema:"enum=STRICT,enum=PERMISSIVE"`
	On       []string          `json:"on,omitempty" jsonschema:"enum=NONE,enum=RESET"`
	Timeout  *span             `json:"timeout,omitempty"`
	Data     []byte            `json:"data,omitempty"`
	Chunks   [][]byte          `json:"chunks,omitempty"`
	Free     map[string]any    `json:"free,omitzero"`
	Any      any               `json:"any,omitempty"`
	Own      ordered           `json:"own,omitempty"`
	TCP      *struct{}         `json:"tcp,omitempty"`
	Codes    []uint32          `json:"codes,omitempty"`
	Sizes    map[string]int32  `json:"sizes,omitempty"`
	Nested   *paperConf        `json:"nested,omitempty"`
	Text     map[string]string `json:"text,omitempty"`
}

var papers = &model.Kind{
	Name: "paper", Path: "papers", Scoping: model.Mesh, New: func() any { return new(paper) },
	Document: &model.Document{Type: "Paper"},
}

func TestDecodeDocument(t *testing.T) {
	for _, tc := range []struct {
		name, body, spec string
	}{
		{"nothing", `{}`, `{}`},
		{"null is absent", `{"type":null,"conf":{"weight":null,"timeout":null,"codes":null},"labels":null}`, `{"conf":{}}`},
		{"snake case", `{"conf":{"use_http1":true,"num_retries":2}}`, `{"conf":{"useHttp1":true,"numRetries":2}}`},
		{"numeric strings", `{"conf":{"numRetries":"7","ring":"64","ratio":"0.5","codes":["1",2,3.0,1e2]}}`, `{"conf":{"numRetries":7,"ring":64,"ratio":0.5,"codes":[1,2,3,100]}}`},
		{"64 bits exactly", `{"conf":{"ring":9223372036854775807}}`, `{"conf":{"ring":9223372036854775807}}`},
		{"enumerations", `{"conf":{"mode":1,"on":["RESET",0]}}`, `{"conf":{"mode":"PERMISSIVE","on":["RESET","NONE"]}}`},
		{"default of an enumeration", `{"conf":{"mode":"STRICT"}}`, `{"conf":{}}`},
		{"wrappers keep zero", `{"conf":{"weight":0,"ratio":0,"tcp":{}}}`, `{"conf":{"weight":0,"ratio":0,"tcp":{}}}`},
		{"bytes", `{"conf":{"data":"aGk=","chunks":["AQ==","Ag=="]}}`, `{"conf":{"data":"aGk=","chunks":["AQ==","Ag=="]}}`},
		{"durations", `{"conf":{"timeout":"1m30s"}}`, `{"conf":{"timeout":"1m30s"}}`},
		{"empty is absent", `{"sources":[],"labels":{},"conf":{"data":"","sizes":{}}}`, `{"conf":{}}`},
		{"free maps", `{"conf":{"free":{"port":5670,"a_b":null,"tls":{}},"any":[1]}}`, `{"conf":{"free":{"port":5670,"a_b":null,"tls":{}},"any":[1]}}`},
		{"own text", `{"conf":{"own": {"b":1, "a":2} }}`, `{"conf":{"own":{"b":1, "a":2}}}`},
		{"embedded", `{"labels":{"a":"b"},"destinations":[{"k":"v"}]}`, `{"labels":{"a":"b"},"destinations":[{"k":"v"}]}`},
		{"times are ignored", `{"creationTime":"0001-01-01T00:00:00Z","modificationTime":"2020-01-01T00:00:00.5+02:00"}`, `{}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, got, err := model.DecodeDocument(papers, []byte(tc.body))
			if err != nil {
				t.Fatal(err)
			}
			want := new(paper)
			if err := json.Unmarshal([]byte(tc.spec), want); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(paper{}, ends{})); diff != "" {
				t.Errorf("spec (-want +got):\n%s", diff)
			}
		})
	}
}

// TestUnknownMembers: a mistyped name would leave a default in force. So it is refused,
// unless the caller asks for a list of unknown members.
func TestUnknownMembers(t *testing.T) {
	body := []byte(`{"x":1,"conf":{"y":[{}],"num_retrys":1,"nested":{"tiemout":"1s"},"free":{"any":1}},"sources":[{},{"mach":null}]}`)
	want := []fault.Violation{
		{Path: "x", Message: "unknown field"},
		{Path: "conf.y", Message: "unknown field"},
		{Path: "conf.num_retrys", Message: `unknown field; did you mean "numRetries"?`},
		{Path: "conf.nested.tiemout", Message: `unknown field; did you mean "timeout"?`},
		{Path: "sources[1].mach", Message: `unknown field; did you mean "match"?`},
	}
	_, _, err := model.DecodeDocument(papers, body)
	refused, ok := errors.AsType[*fault.Error](err)
	if !ok || refused.Code != fault.Invalid {
		t.Fatalf("decoded with %v", err)
	}
	if diff := cmp.Diff(want, refused.Violations); diff != "" {
		t.Errorf("violations (-want +got):\n%s", diff)
	}
	read, err := model.ReadDocument(papers, body)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, read.Unknown); diff != "" {
		t.Errorf("unknown (-want +got):\n%s", diff)
	}
	if got := read.Spec.(*paper); len(got.Sources) != 2 || got.Conf.Retries != 0 {
		t.Errorf("read %+v", got)
	}
}

// TestMembersGivenTwice: if a name is given twice, one of the members is dropped, and JSON
// readers differ about which. Both spellings of a field are the same name.
func TestMembersGivenTwice(t *testing.T) {
	body := []byte(`{"name":"n","name":"o","conf":{"codes":[1,2],"codes":[3],"numRetries":1,"num_retries":2,"text":{"a":"b","a":"c"}},"conf":null}`)
	want := []fault.Violation{
		{Path: "name", Message: "is given twice"},
		{Path: "conf.codes", Message: "is given twice"},
		{Path: "conf.num_retries", Message: "is given twice"},
		{Path: `conf.text["a"]`, Message: "is given twice"},
		{Path: "conf", Message: "is given twice"},
	}
	read, err := model.ReadDocument(papers, body)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, read.Unknown); diff != "" {
		t.Errorf("unknown (-want +got):\n%s", diff)
	}
	if got := read.Spec.(*paper); got.Conf == nil || len(got.Conf.Codes) != 1 || got.Conf.Retries != 2 || got.Conf.Text["a"] != "c" {
		t.Errorf("read %+v", got.Conf)
	}
	if _, _, err := model.DecodeDocument(papers, body); !fault.Is(err, fault.Invalid) {
		t.Errorf("decoded with %v", err)
	}
}

// TestUnknownMembersAreBounded: the answer does not grow with the input.
func TestUnknownMembersAreBounded(t *testing.T) {
	var body strings.Builder
	body.WriteString("{")
	for i := range 5000 {
		fmt.Fprintf(&body, `"m%d":0,`, i)
	}
	body.WriteString(`"name":"n"}`)
	read, err := model.ReadDocument(papers, []byte(body.String()))
	if err != nil || len(read.Unknown) != 100 {
		t.Errorf("%d violations, %v", len(read.Unknown), err)
	}
}

func TestDecodeDocumentMeta(t *testing.T) {
	got, _, err := model.DecodeDocument(papers, []byte(`{"name":"n","mesh":"m","type":"T","labels":{"a":"b"}}`))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(model.DocumentMeta{Type: "T", Mesh: "m", Name: "n", Labels: map[string]string{"a": "b"}}, got); diff != "" {
		t.Error(diff)
	}
}

func TestDecodeDocumentRefuses(t *testing.T) {
	for body, want := range map[string]string{
		"":                                       "unexpected end of JSON input",
		`{"a":`:                                  "unexpected end of JSON input",
		`{a}`:                                    "invalid character 'a' looking for beginning of object key string",
		`{} x`:                                   "invalid character 'x' after top-level value",
		`[]`:                                     "expected object, got array",
		`null`:                                   "expected object, got null",
		"{\"name\":\"\xff\"}":                    "a document is valid UTF-8",
		`{"name":1}`:                             "name: expected string, got number",
		`{"creationTime":"bad"}`:                 `parsing time "bad" as "2006-01-02T15:04:05Z07:00": cannot parse "bad" as "2006"`,
		`{"conf":[]}`:                            "conf: expected object, got array",
		`{"conf":{"useHttp1":"true"}}`:           "conf.useHttp1: expected boolean, got string",
		`{"conf":{"numRetries":-1}}`:             "conf.numRetries: expected non-negative integer of 32 bits, got -1",
		`{"conf":{"numRetries":4294967296}}`:     "conf.numRetries: expected non-negative integer of 32 bits, got 4294967296",
		`{"conf":{"numRetries":1.5}}`:            "conf.numRetries: expected non-negative integer of 32 bits, got 1.5",
		`{"conf":{"num_retries":"x"}}`:           "conf.num_retries: expected number, got string",
		`{"conf":{"ratio":"NaN"}}`:               "conf.ratio: expected number, got string",
		`{"conf":{"ratio":1e999}}`:               "conf.ratio: number 1e999 is out of range",
		`{"conf":{"mode":"LOOSE"}}`:              `conf.mode: unknown value "LOOSE" of an enumeration`,
		`{"conf":{"mode":2}}`:                    "conf.mode: unknown value 2 of an enumeration",
		`{"conf":{"on":["x"]}}`:                  `conf.on[0]: unknown value "x" of an enumeration`,
		`{"conf":{"data":"~"}}`:                  "illegal base64 data at input byte 0",
		`{"conf":{"timeout":"5"}}`:               `conf.timeout: time: missing unit in duration "5"`,
		`{"conf":{"codes":[null]}}`:              "conf.codes[0]: null is no element of a list",
		`{"conf":{"sizes":{"a":null}}}`:          `conf.sizes["a"]: null is no value of a map`,
		`{"conf":{"sizes":{"a":"x"}}}`:           `conf.sizes["a"]: expected number, got string`,
		`{"sources":[{},{"match":{"a":1}}]}`:     `sources[1].match["a"]: expected string, got number`,
		strings.Repeat("[", model.MaxDepth+1):    "a document is nested at most 64 levels deep",
		strings.Repeat(" ", model.MaxDocument+1): "a document has at most 1048576 bytes",
	} {
		_, spec, err := model.DecodeDocument(papers, []byte(body))
		f, ok := errors.AsType[*fault.Error](err)
		if !ok || f.Code != fault.Invalid || len(f.Violations) != 0 || spec != nil {
			t.Errorf("%.40s: %v, %v", body, spec, err)
			continue
		}
		if want := fmt.Sprintf("invalid Paper object: %q", want); f.Detail != want {
			t.Errorf("%.40s:\n got %s\nwant %s", body, f.Detail, want)
		}
	}
}

func TestDepthCountsNoText(t *testing.T) {
	body := `{"name":"` + strings.Repeat(`[{\"`, 100) + `"}`
	if _, _, err := model.DecodeDocument(papers, []byte(body)); err != nil {
		t.Error(err)
	}
}

func TestEncodeDocument(t *testing.T) {
	body := `{"type":"Paper","mesh":"m","name":"n","creationTime":"2024-01-02T03:04:05.0067Z","modificationTime":"2024-01-02T04:04:05Z",` +
		`"labels":{"a":"1","b":"2"},"sources":[{"match":{"k":"*","l":"<&>"}}],"destinations":[{}],` +
		`"conf":{"useHttp1":true,"numRetries":3,"weight":0,"ring":"64","ratio":0.25,"mode":"PERMISSIVE","on":["NONE","RESET"],"timeout":"1m30s",` +
		`"data":"aGk=","free":{"a":null,"b":1,"c":{"x":"&"}},"own":{"b":1,"a":2},"tcp":{},"codes":[1],"sizes":{"a":1,"b":2}}}`
	_, spec, err := model.DecodeDocument(papers, []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	created := time.Date(2024, 1, 2, 3, 4, 5, 6_700_000, time.UTC)
	r := &model.Resource{
		Kind: papers, Scope: "m", Name: "n", Created: created,
		Modified: created.Truncate(time.Second).Add(time.Hour).In(time.FixedZone("x", 3600)), Spec: spec,
	}
	got, err := model.EncodeDocument(r)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(body, string(got)); diff != "" {
		t.Errorf("document (-want +got):\n%s", diff)
	}
	alone, err := model.EncodeSpec(spec)
	if err != nil || !bytes.HasPrefix(alone, []byte(`{"sources":`)) {
		t.Errorf("spec %s, %v", alone, err)
	}
}

func TestEncodeLeavesDefaultsOut(t *testing.T) {
	global := *papers
	global.Scoping = model.Global
	spec := &paper{Conf: &paperConf{Mode: "STRICT", Free: map[string]any{}}}
	got, err := model.EncodeDocument(&model.Resource{Kind: &global, Name: "n", Spec: spec})
	want := `{"type":"Paper","name":"n","creationTime":"0001-01-01T00:00:00Z","modificationTime":"0001-01-01T00:00:00Z","conf":{"free":{}}}`
	if err != nil || string(got) != want {
		t.Errorf("got %s, %v", got, err)
	}
}

// FuzzDocument: decoding never panics. A decoded document is decoded to the same again from
// its encoding, and from its stored form.
func FuzzDocument(f *testing.F) {
	f.Add([]byte(`{"type":"Paper","labels":{"a":"b"},"sources":[{"match":{"k":"*"}}],"conf":{"nested":{"mode":"PERMISSIVE","ring":"1","free":{"x":[1,{}]}}}}`))
	f.Add([]byte(`{"conf":{"use_http1":true,"weight":0,"ratio":1e3,"on":[0,"RESET"],"timeout":"-5ms","data":"aGk=","own":[1, 2],"any":{"b":null}}}`))
	f.Add([]byte(`{"conf":{"codes":["1"],"sizes":{"":-1},"chunks":["",""],"any":"\ud800"},"destinations":[{"":""}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		_, spec, err := model.DecodeDocument(papers, body)
		if err != nil {
			if !fault.Is(err, fault.Invalid) {
				t.Fatalf("error %v", err)
			}
			return
		}
		encoded, err := model.EncodeDocument(&model.Resource{Kind: papers, Scope: "m", Name: "n", Spec: spec})
		if err != nil {
			t.Fatalf("encode: %v", err)
		}
		_, again, err := model.DecodeDocument(papers, encoded)
		if err != nil {
			if len(encoded) > model.MaxDocument {
				return
			}
			t.Fatalf("decode %s: %v", encoded, err)
		}
		if diff := cmp.Diff(spec, again, cmp.AllowUnexported(paper{}, ends{}), compactOwn); diff != "" {
			t.Errorf("not stable: %s", diff)
		}
	})
}

// compactOwn compares texts apart from the white space that encoding removes.
var compactOwn = cmp.Comparer(func(a, b ordered) bool {
	var x, y bytes.Buffer
	return a == b || json.Compact(&x, []byte(a)) == nil && json.Compact(&y, []byte(b)) == nil && x.String() == y.String()
})

func TestValidateName(t *testing.T) {
	long := strings.Repeat("a", 254)
	const strict = "invalid characters. A lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character"
	const lax = "invalid characters. Valid characters are numbers, lowercase latin letters and '-', '_', '.' symbols."
	for _, tc := range []struct {
		name     string
		creating bool
		want     string
	}{
		{"a-1.b", true, ""}, {"a_b", true, strict}, {"a_b", false, ""}, {"-a", true, strict}, {"-a", false, ""}, {"A", false, lax}, {"a..b", true, strict},
		{"", true, "cannot be empty"}, {long, true, "value length must less or equal 253"}, {"a/b", false, lax},
	} {
		got := ""
		if vs := model.ValidateName(tc.name, tc.creating); len(vs) > 0 {
			got = vs[0].Message
		}
		if got != tc.want {
			t.Errorf("%q (creating %v): %q, want %q", tc.name, tc.creating, got, tc.want)
		}
	}
}

func TestValidateLabels(t *testing.T) {
	var got []string
	for _, v := range model.ValidateLabels(map[string]string{
		"ok": "", "mesh.io/zone": "a_b.c", "Bad Key": "x", "UPPER.example/x": "x", "v": "-", "mesh.io/origin": "foo", "mesh.io/mesh": "other",
	}, "m") {
		got = append(got, v.Path)
	}
	want := []string{`labels["Bad Key"]`, `labels["UPPER.example/x"]`, `labels["mesh.io/mesh"]`, `labels["mesh.io/origin"]`, `labels["v"]`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
