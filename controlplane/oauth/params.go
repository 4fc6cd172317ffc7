package oauth

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"strings"
)

// Limits of a request to an endpoint of the plugin.
const (
	maxBody   = 64 << 10
	maxParams = 100
)

// params are the parameters of a request. Those of the body replace those of the query. A
// value is a string, true for a name without "=", a list for a repeated name, or whatever
// JSON holds (numbers as json.Number). A parameter with an empty string counts as present.
type params struct {
	values map[string]any
	// inURI holds the names that came in the query.
	inURI map[string]bool
	// repeated is a name that came more than once, or empty.
	repeated string
}

// text returns a parameter that is a string.
func (p *params) text(name string) (string, bool) {
	s, ok := p.values[name].(string)
	return s, ok
}

func (p *params) has(name string) bool {
	_, ok := p.values[name]
	return ok
}

// readParams collects the parameters. A body that is neither form, JSON nor multipart, or
// that does not parse, counts as empty. A body over the limit is an error, because half of it
// must never be acted upon.
func readParams(w http.ResponseWriter, r *http.Request) (*params, error) {
	p := &params{values: map[string]any{}, inURI: map[string]bool{}}
	query := fields{}
	query.readQuery(r.URL.RawQuery, maxParams)
	p.overlay(&query)
	for name := range query.values {
		p.inURI[name] = true
	}
	if r.Method != http.MethodPost {
		return p, nil
	}
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		return nil, err
	}
	body := fields{}
	body.read(r.Header.Get("Content-Type"), raw)
	p.overlay(&body)
	if len(p.values) > maxParams {
		return nil, errors.New("too many parameters")
	}
	return p, nil
}

// overlay adds the parameters of another part of the request, which replace earlier ones.
func (p *params) overlay(over *fields) {
	if p.repeated == "" {
		p.repeated = over.repeated
	}
	for name, v := range over.values {
		if v == nil { // JSON null counts as absent, RFC 6749 section 3.2
			continue
		}
		if p.has(name) {
			p.repeated = name
		}
		p.values[name] = v
	}
}

// fields are the parameters in one part of a request.
type fields struct {
	values   map[string]any
	repeated string
}

// read reads a body by its type.
func (f *fields) read(contentType string, body []byte) {
	kind := strings.ToLower(strings.TrimSpace(strings.SplitN(contentType, ";", 2)[0]))
	switch {
	case strings.HasPrefix(kind, "application/x-www-form-urlencoded"):
		f.readQuery(string(body), maxParams)
	case strings.HasPrefix(kind, "application/json"):
		f.readJSON(body)
	case strings.HasPrefix(kind, "multipart/form-data"):
		f.readMultipart(contentType, body)
	}
}

// readQuery reads pairs until there are more names than the limit.
func (f *fields) readQuery(query string, limit int) {
	for len(query) > 0 && len(f.values) <= limit {
		var pair string
		pair, query, _ = strings.Cut(query, "&")
		name, value, valued := strings.Cut(pair, "=")
		name, err := url.QueryUnescape(name)
		if err != nil || name == "" {
			continue
		}
		var v any = true
		if valued {
			s, err := url.QueryUnescape(value)
			if err != nil {
				continue
			}
			v = s
		}
		f.add(name, v)
	}
}

// readJSON reads the members of an object. If a member occurs twice, the last one counts, as
// everywhere in JSON.
func (f *fields) readJSON(body []byte) {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if start, err := d.Token(); err != nil || start != json.Delim('{') {
		return
	}
	read := fields{values: map[string]any{}}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return
		}
		var v any
		if err := d.Decode(&v); err != nil {
			return
		}
		if _, again := read.values[name.(string)]; again {
			read.repeated = name.(string)
		}
		read.values[name.(string)] = v
	}
	if _, err := d.Token(); err != nil {
		return
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return // something follows the object
	}
	*f = read
}

func (f *fields) readMultipart(contentType string, body []byte) {
	_, attributes, err := mime.ParseMediaType(contentType)
	if err != nil || attributes["boundary"] == "" {
		return
	}
	for mr := multipart.NewReader(bytes.NewReader(body), attributes["boundary"]); len(f.values) <= maxParams; {
		part, err := mr.NextPart()
		if err != nil {
			return
		}
		value, err := io.ReadAll(part)
		if err == nil && part.FormName() != "" && part.FileName() == "" {
			f.add(part.FormName(), string(value))
		}
	}
}

// add stores a value; further values of the same name make a list.
func (f *fields) add(name string, v any) {
	if f.values == nil {
		f.values = map[string]any{}
	}
	switch old := f.values[name].(type) {
	case nil:
		f.values[name] = v
	case []any:
		f.values[name] = append(old, v)
	default:
		f.values[name], f.repeated = []any{old, v}, name
	}
}
