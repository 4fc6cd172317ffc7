package oauthtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// Target is a system that cases can test.
type Target interface {
	// Admin performs a request of the administration API.
	Admin(method, path string, doc any) (status int, body []byte, err error)
	// Send performs a request at the gateway. Before that, everything that Admin has changed
	// must be in effect. Variables are replaced already. The gateway must trust the address
	// of the test to state the scheme of requests.
	Send(r Request) (*Response, error)
}

// Response is an answer whose body was read completely.
type Response struct {
	Status int
	Header http.Header
	Body   string
}

// World is a case whose entities have been created.
type World struct {
	c      Case
	target Target
	vars   map[string]string
}

// Make creates the world of a case: a service, a route at /<case>, an oauth2 plugin on the
// service, a consumer, and two applications. vars are further variables, such as upstream.
func Make(target Target, c Case, vars map[string]string) (*World, error) {
	w := &World{c: c, target: target, vars: map[string]string{
		"case": c.Name, "route": "/" + c.Name, "app": c.Name + "_app", "secret": c.Name + "_secret", "key": c.Name + "_key",
		"client": "client_id=" + c.Name + "_app&client_secret=" + c.Name + "_secret", "public": "client_id=" + c.Name + "_public",
		"auth": "provision_key=" + c.Name + "_key&authenticated_userid=id123&client_id=" + c.Name + "_app",
	}}
	for k, v := range vars {
		w.vars[k] = v
	}
	w.vars["iss"] = inRedirect("https://" + w.vars["authority"] + w.vars["route"])
	for _, p := range append(w.entities(), c.Setup...) {
		if err := w.put(p); err != nil {
			return nil, fmt.Errorf("%s: %w", c.Name, err)
		}
	}
	return w, nil
}

// inRedirect encodes a text as in the query of a redirect_uri: everything but letters, digits
// and "_" is percent-encoded, in lower case.
func inRedirect(s string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		if c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02x", c)
		}
	}
	return b.String()
}

func (w *World) entities() []Put {
	redirect := []any{"https://app.test/cb"}
	consumer := map[string]any{"username": "${case}_consumer"}
	puts := []Put{
		{Path: "/services/${case}", Doc: map[string]any{"host": "127.0.0.1", "port": json.Number("${upstream}")}},
		{Path: "/routes/${case}", Doc: merged(map[string]any{"paths": []any{"${route}"}, "service": map[string]any{"name": "${case}"}}, w.c.Route)},
		{Path: "/consumers/${case}_consumer", Doc: map[string]any{"custom_id": "${case}_custom"}, Save: map[string]string{"consumer": "id"}},
		{Path: "/oauth2/${app}", Doc: merged(map[string]any{
			"name": "app", "client_secret": "${secret}", "redirect_uris": redirect, "consumer": consumer,
		}, w.c.Application), Save: map[string]string{"app_id": "id"}},
		{Path: "/oauth2/${case}_public", Doc: merged(map[string]any{
			"name": "public", "client_type": "public", "redirect_uris": redirect, "consumer": consumer,
		}, w.c.Public)},
	}
	if w.c.Bare {
		return puts
	}
	return append(puts, Put{Path: "/plugins/${case}", Save: map[string]string{"plugin": "id"}, Doc: map[string]any{
		"name": "oauth2", "service": map[string]any{"name": "${case}"},
		"config": merged(map[string]any{"provision_key": "${key}", "scopes": []any{"email", "profile"}}, w.c.Config),
	}})
}

func (w *World) put(p Put) error {
	status, body, err := w.target.Admin(http.MethodPut, w.text(p.Path), w.document(p.Doc))
	if err != nil {
		return err
	}
	if status != http.StatusOK {
		return fmt.Errorf("PUT %s: %d %s", w.text(p.Path), status, body)
	}
	return w.save(p.Save, &Response{Body: string(body)})
}

// text replaces variables. An unknown variable stays in the text, so that the case fails.
func (w *World) text(s string) string {
	for name, v := range w.vars {
		s = strings.ReplaceAll(s, "${"+name+"}", v)
	}
	return s
}

// document replaces variables in all texts.
func (w *World) document(v any) any {
	switch v := v.(type) {
	case string:
		return w.text(v)
	case json.Number:
		return json.Number(w.text(string(v)))
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = w.document(e)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			out[w.text(k)] = w.document(e)
		}
		return out
	}
	return v
}
