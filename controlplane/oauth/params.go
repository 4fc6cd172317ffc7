package oauth

import (
	"encoding/json"
	"errors"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"strings"
)

// Limits of a token request.
const (
	maxBody   = 64 << 10
	maxParams = 100
)

// params are the parameters of a request: query overlaid by body. A value is a
// string, or true for a name without "=", or a list for a repeated name, or
// what JSON says. "Present" means not absent: an empty string counts.
type params map[string]any

// text returns a parameter that is a string.
func (p params) text(name string) (string, bool) {
	s, ok := p[name].(string)
	return s, ok
}

func (p params) has(name string) bool {
	_, ok := p[name]
	return ok
}

// readParams collects the parameters. A body of another type than form, JSON or
// multipart, or one that does not parse, counts as empty; a body over the limit
// is an error, because half of it must never be acted upon.
func readParams(w http.ResponseWriter, r *http.Request) (params, error) {
	p := params{}
	overlayQuery(p, r.URL.RawQuery)
	if r.Method != http.MethodPost {
		return p, nil
	}
	kind := strings.ToLower(strings.TrimSpace(strings.SplitN(r.Header.Get("Content-Type"), ";", 2)[0]))
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		return nil, err
	}
	switch {
	case strings.HasPrefix(kind, "application/x-www-form-urlencoded"):
		overlayQuery(p, string(body))
	case strings.HasPrefix(kind, "application/json"):
		overlayJSON(p, body)
	case strings.HasPrefix(kind, "multipart/form-data"):
		overlayMultipart(p, r.Header.Get("Content-Type"), string(body))
	}
	if len(p) > maxParams {
		return nil, errors.New("too many parameters")
	}
	return p, nil
}

func overlayQuery(p params, query string) {
	seen := map[string]any{}
	for len(query) > 0 && len(seen) <= maxParams {
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
		add(seen, name, v)
	}
	overlay(p, seen)
}

func overlayJSON(p params, body []byte) {
	var m map[string]any
	if json.Unmarshal(body, &m) == nil {
		overlay(p, m)
	}
}

func overlayMultipart(p params, contentType, body string) {
	_, rest, _ := strings.Cut(contentType, "boundary=")
	boundary := strings.Trim(strings.TrimSpace(strings.SplitN(rest, ";", 2)[0]), `"`)
	if boundary == "" {
		return
	}
	seen := map[string]any{}
	for mr := multipart.NewReader(strings.NewReader(body), boundary); len(seen) <= maxParams; {
		part, err := mr.NextPart()
		if err != nil {
			break
		}
		value, err := io.ReadAll(part)
		if err == nil && part.FormName() != "" && part.FileName() == "" {
			add(seen, part.FormName(), string(value))
		}
	}
	overlay(p, seen)
}

func add(m map[string]any, name string, v any) {
	switch old := m[name].(type) {
	case nil:
		m[name] = v
	case []any:
		m[name] = append(old, v)
	default:
		m[name] = []any{old, v}
	}
}

func overlay(p params, over map[string]any) {
	for k, v := range over {
		if v != nil { // JSON null counts as absent, RFC 6749 section 3.2
			p[k] = v
		}
	}
}
