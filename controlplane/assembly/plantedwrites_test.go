package assembly

import (
	"bytes"
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/meshgate/meshgate/controlplane/httpkit"
)

// looker looks for secrets in an answer.
type looker func(user, method, path string, status int, answer []byte)

// try asks what a write would do that changes every secret, and sends bodies that are wrong. Where nobody can
// ask that, it sends only what is refused, so that nothing changes. It fails for an endpoint that refused nothing.
func (w *plantedWorld) try(port int, e *httpkit.Endpoint, names map[string][]string, look looker) {
	w.t.Helper()
	if !slices.ContainsFunc(e.Contract.Query, func(p httpkit.Parameter) bool { return p.Name == httpkit.ArgDryRun }) {
		w.tryRefused(port, e, names, look)
		return
	}
	for _, path := range w.paths(names, e.Pattern) {
		bodies := []string{""}
		if e.Contract.Body != "" {
			text := w.shown(port, e, path)
			bodies = append([]string{text, strings.ReplaceAll(text, mark, "n3w-"+mark)}, spoilt(text)...)
		}
		for _, body := range bodies {
			w.asAll(port, e.Method, path, "?dryRun=true", body, look)
		}
	}
}

// tells is an endpoint that reads no body and is about nothing that could be absent. It changes nothing that is
// looked at.
const tells = "POST /v2/audit-log-webhook/test"

// given has a secret wherever callers may have to give one.
const given = `{"password":"` + mark + `1-planted","authorization":"` + mark + `1-planted","token":"` + mark + `1-planted","cert":"` + mark + `1-planted"}`

var segment = regexp.MustCompile(`\{[^/]+\}`)

// tryRefused sends what is wrong to an endpoint: bodies to whatever there is, and where none is read, requests
// about what there is not.
func (w *plantedWorld) tryRefused(port int, e *httpkit.Endpoint, names map[string][]string, look looker) {
	w.t.Helper()
	var paths []string
	if e.Contract.Body != "" {
		paths = w.paths(names, e.Pattern)
	}
	if len(paths) == 0 {
		paths = []string{segment.ReplaceAllString(e.Pattern, "10000000-0000-4000-8000-00000000dead")}
	}
	refused := 0
	for _, path := range paths {
		bodies := []string{""}
		if e.Contract.Body != "" {
			bodies = append(spoilt(w.shown(port, e, path)), spoilt(given)...)
		}
		for _, body := range bodies {
			status := w.asAll(port, e.Method, path, "", body, look)
			if e.Method+" "+e.Pattern != tells && (status < http.StatusBadRequest || status == http.StatusInternalServerError) {
				w.t.Errorf("%s %s takes %q: %d", e.Method, path, body, status)
				continue
			}
			refused++
		}
	}
	if refused == 0 {
		w.t.Errorf("%s %s refused nothing", e.Method, e.Pattern)
	}
}

// asAll sends a request as everybody who may write something, and as who may not, and returns the status for the
// administrator.
func (w *plantedWorld) asAll(port int, method, path, query, body string, look looker) (admins int) {
	w.t.Helper()
	for _, user := range []string{"admin", "mesh admin", "mesh editor", "gateway editor", "viewer"} {
		status, answer := w.ask(port, user, method, path+query, body)
		look(user, method, path, status, answer)
		if user == "admin" {
			admins = status
		}
	}
	return admins
}

// shown is the document that a write to a path would replace, or one like that which it would create.
func (w *plantedWorld) shown(port int, e *httpkit.Endpoint, path string) string {
	w.t.Helper()
	_, body := w.ask(port, "admin", http.MethodGet, path, "")
	body, _, _ = bytes.Cut(body, []byte("\n"))
	var list struct{ Data []json.RawMessage }
	if e.Method == http.MethodPost && json.Unmarshal(body, &list) == nil && len(list.Data) > 0 {
		body = list.Data[0]
	}
	return string(body)
}

// spoilt are documents that are wrong: with a list where a secret is, with a member that is unknown, and without
// their end.
func spoilt(text string) []string {
	return slices.DeleteFunc([]string{
		strings.ReplaceAll(text, `"`+mark, `["`+mark), strings.Replace(text, "{", `{"mystery":"`+mark+`1-planted",`, 1), text[:max(0, len(text)-3)],
	}, func(s string) bool { return s == text || s == "" })
}
