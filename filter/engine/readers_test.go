package engine

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime/multipart"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/filter/contract"
)

var tokenParam = param{name: accessToken}

// FuzzPairs: any other parser finds the same token in a query or form. After hiding, no
// parser finds it.
func FuzzPairs(f *testing.F) {
	for _, s := range []string{"", "&", "access_token=x", "a=b&access_token=a%20b+c&d", "access_token", "access_token=", "access%5Ftoken=%zz",
		"access_token=a;b", "a;access_token=b", "access_token=a&access_token=b", "access_token==&=", "%=%&access_token=%00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, pairs string) {
		var scratch [contract.MaxCredential]byte
		found, value := findPair([]byte(pairs), &tokenParam, scratch[:])
		parsed, _ := url.ParseQuery(pairs) // it returns what it understood
		if want := parsed[accessToken]; found == text && !slices.Equal(want, []string{string(value)}) {
			t.Errorf("%q: found %q, url.ParseQuery %q", pairs, value, want)
		}
		if strings.Count(pairs, "&") < maxPairs && found == absent && len(parsed[accessToken]) != 0 {
			t.Errorf("%q: %q is overlooked", pairs, parsed[accessToken])
		}
		left := dropPairs([]byte(pairs), tokenParam.matches)
		if after, _ := findPair(left, &tokenParam, scratch[:]); after != absent && strings.Count(pairs, "&") < maxPairs {
			t.Errorf("%q: %q is left", pairs, left)
		}
		kept, _ := url.ParseQuery(string(left))
		delete(parsed, accessToken)
		if !slices.Equal(strings.Split(kept.Encode(), "&"), strings.Split(parsed.Encode(), "&")) {
			t.Errorf("%q: %q is left, which means something else", pairs, left)
		}
	})
}

func FuzzJSON(f *testing.F) {
	for _, s := range []string{``, `{}`, `{"access_token":"x"}`, ` { "a":[1,{"b":[]}],"access_token" : "\u00e9\ud83d\ude00\ud800" } `, `{"access_token":1e5}`,
		`{"access_token":"a","access_token":"b"}`, `{"access\u005ftoken":["x"]}`, `[{"access_token":"x"}]`, `{"access_token":"x"}x`, `{"a":-0.0E+1,"b":tru}`,
		`{"a":01}`, `{"a":"` + "\x01" + `"}`, `{"a":{"b":}}`, `{"access_token":"x",}`, `{"a":"\x"}`, "{\"access_token\":\"\xff\"}", `{"a":[[[{}]]],"c":null}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, doc string) {
		params := []param{tokenParam}
		b := readBody([]byte("application/json"), []byte(doc), params)
		var parsed map[string]any
		err := json.Unmarshal([]byte(doc), &parsed)
		if b.found[0] != absent && err != nil {
			t.Fatalf("%q: found something in a document that is none: %v", doc, err)
		}
		if b.found[0] == text && parsed[accessToken] != string(b.values[0]) {
			t.Errorf("%q: found %q, encoding/json %q", doc, b.values[0], parsed[accessToken])
		}
		if v, ok := parsed[accessToken].(string); ok && b.found[0] == absent && err == nil && !strings.ContainsRune(doc, '\ufffd') &&
			strings.ToValidUTF8(doc, "") == doc && depthOf(doc) < maxDepth {
			t.Errorf("%q: %q is overlooked", doc, v)
		}
		p := &Program{params: params}
		left := p.dropMembers(1, []byte(doc))
		if b.found[0] == absent {
			return
		}
		var kept map[string]any
		if err := json.Unmarshal(left, &kept); err != nil {
			t.Fatalf("%q: %q is left: %v", doc, left, err)
		}
		delete(parsed, accessToken)
		if len(kept) != len(parsed) {
			t.Errorf("%q: %q is left", doc, left)
		}
	})
}

// depthOf returns an upper bound of the nesting of a document.
func depthOf(doc string) int { return strings.Count(doc, "[") + strings.Count(doc, "{") }

func FuzzMultipart(f *testing.F) {
	field := func(name, value string) string {
		return "--b\r\nContent-Disposition: form-data; name=\"" + name + "\"\r\n\r\n" + value + "\r\n"
	}
	for _, s := range []string{"", "--b--", "--b--\r\n", field("access_token", "x") + "--b--\r\n", field("a", "") + field("access_token", "--b") + "--b--",
		field("access_token", "x") + field("access_token", "y") + "--b--\r\n", field("access_token", "x"), field(`access_token"; filename="f`, "x") + "--b--\r\n",
		"--b\r\n\r\n\r\n--b--\r\n", strings.ReplaceAll(field("access_token", "x"), "\r\n", "\n") + "--b--\n", "x\r\n" + field("access_token", "x") + "--b--",
		"--b\r\nContent-Disposition: form-data; name=access_token\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n=41\r\n--b--",
		"--b \r\nContent-Disposition: form-data; name=access_token\r\n\r\nx\r\n--b--", field(`access_\token`, "x") + "--b--"} {
		f.Add("b", s)
	}
	f.Fuzz(func(t *testing.T, boundary, body string) {
		contentType := "multipart/form-data; boundary=" + boundary
		b := readBody([]byte(contentType), []byte(body), []param{tokenParam})
		if b.found[0] == absent {
			return
		}
		values, whole := standardParts(boundaryOf([]byte(contentType)), body)
		if !whole {
			t.Fatalf("%q: found something in a body that is malformed", body)
		}
		if b.found[0] == text && !slices.Equal(values, []string{string(b.values[0])}) {
			t.Errorf("%q: found %q, mime/multipart %q", body, b.values[0], values)
		}
		p := &Program{params: []param{tokenParam}}
		left := p.dropParts(1, []byte(contentType), []byte(body))
		if values, _ := standardParts(boundaryOf([]byte(contentType)), string(left)); len(values) != 0 {
			t.Errorf("%q: %q is left", body, left)
		}
	})
}

// standardParts lists the values of tokens as the standard library reads them.
func standardParts(boundary, body string) (values []string, whole bool) {
	r := multipart.NewReader(strings.NewReader(body), boundary)
	for {
		p, err := r.NextPart()
		if err != nil {
			return values, errors.Is(err, io.EOF)
		}
		content, err := io.ReadAll(p)
		if err != nil {
			return values, false
		}
		if p.FormName() == accessToken && p.FileName() == "" {
			values = append(values, string(content))
		}
	}
}

func TestMediaOf(t *testing.T) {
	for in, want := range map[string]media{
		"": mediaNone, "application/json": mediaJSON, "Application/JSON ; charset=x": mediaJSON, "application/jsonx": mediaNone,
		"multipart/form-data; boundary=x": mediaMultipart, "multipart/form-datax": mediaNone, "application/x-www-form-urlencoded": mediaForm,
		"application/grpc": mediaNone, "text/plain": mediaNone,
		"application/x-www-form-urlencoded,application/json": mediaNone,
	} {
		if got := mediaOf([]byte(in)); got != want {
			t.Errorf("%q is %d, want %d", in, got, want)
		}
	}
}

// TestReadersAreBounded: input beyond the limits is not searched, and nothing is found in
// it.
func TestReadersAreBounded(t *testing.T) {
	many := strings.Repeat("a&", maxPairs)
	if found, _ := findPair([]byte(many+"access_token=x"), &tokenParam, make([]byte, 1)); found != other {
		t.Errorf("many pairs: %d", found)
	}
	deep := `{"a":` + strings.Repeat("[", maxDepth+2) + strings.Repeat("]", maxDepth+2) + `,"access_token":"x"}`
	parts := strings.Repeat("--b\r\nA: b\r\n\r\n\r\n", maxPairs+1) + "--b\r\nContent-Disposition: form-data; name=access_token\r\n\r\nx\r\n--b--"
	for name, c := range map[string]struct {
		contentType, body string
		want              kind
	}{
		"deep":        {"application/json", deep, absent},
		"long":        {"application/json", `{"access_token":"` + strings.Repeat("x", contract.MaxCredential+1) + `"}`, long},
		"longest":     {"application/json", `{"access_token":"` + strings.Repeat("x", contract.MaxCredential) + `"}`, text},
		"long form":   {"application/x-www-form-urlencoded", "access_token=" + strings.Repeat("x", contract.MaxCredential+1), long},
		"many parts":  {"multipart/form-data; boundary=b", parts, absent},
		"long part":   {"multipart/form-data; boundary=b", "--b\r\nContent-Disposition: form-data; name=access_token\r\n\r\n" + strings.Repeat("x", 5000) + "\r\n--b--", long},
		"long header": {"multipart/form-data; boundary=b", "--b\r\nA: " + strings.Repeat("x", 5000) + "\r\n\r\n\r\n--b--", absent},
	} {
		if b := readBody([]byte(c.contentType), []byte(c.body), []param{tokenParam}); b.found[0] != c.want {
			t.Errorf("%s: found %d, want %d", name, b.found[0], c.want)
		}
	}
}

// TestRewriteEditsInPlace: the rest of the request stays as it was.
func TestRewriteEditsInPlace(t *testing.T) {
	p := &Program{params: []param{tokenParam, {name: "apikey", fold: true}}}
	for _, c := range []struct {
		verdict                 Verdict
		path, contentType, body string
		wantPath, wantBody      string
	}{
		{Verdict{HideQuery: 1}, "/a?access_token=x", "", "", "/a", ""},
		{Verdict{HideQuery: 3}, "/a?b&APIKEY=x&c=d&access_token=x", "", "", "/a?b&c=d", ""},
		{Verdict{HideQuery: 2}, "/a", "", "", "/a", ""},
		{Verdict{HideBody: 1}, "/a?access_token=x", "application/x-www-form-urlencoded", "access_token=x&a=%41", "/a?access_token=x", "a=%41"},
		{Verdict{HideBody: 3}, "/", "application/json", `{"access_token":"x","b":1,"apikey":2}`, "/", `{"b":1}`},
		{Verdict{HideBody: 2}, "/", "application/json", `{"apikey":2}`, "/", `{}`},
		{Verdict{HideBody: 2}, "/", "application/json", `{"apikey":2`, "/", `{"apikey":2`},
		{Verdict{HideBody: 1}, "/", "multipart/form-data; boundary=b", "--b\r\nContent-Disposition: form-data; name=access_token\r\n\r\nx\r\n--b--", "/", "--b--"},
		{Verdict{HideBody: 1}, "/", "text/plain", "access_token=x", "/", "access_token=x"},
	} {
		path, body := p.Rewrite(&c.verdict, []byte(c.path), []byte(c.contentType), []byte(c.body))
		if string(path) != c.wantPath || !bytes.Equal(body, []byte(c.wantBody)) {
			t.Errorf("%s %s: %q, %q, want %q, %q", c.path, c.body, path, body, c.wantPath, c.wantBody)
		}
	}
}
