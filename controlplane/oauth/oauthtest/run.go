package oauthtest

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// Run performs the steps. It goes on after a wrong answer, and returns all errors.
func (w *World) Run() error {
	var wrong []error
	for i, s := range w.c.Steps {
		if err := w.step(s); err != nil {
			wrong = append(wrong, fmt.Errorf("%s, step %d %s: %w", w.c.Name, i+1, s.Name, err))
		}
	}
	return errors.Join(wrong...)
}

func (w *World) step(s Step) error {
	if s.Admin != nil {
		return w.admin(s)
	}
	for range s.Times - 1 {
		got, err := w.target.Send(w.request(s.Request))
		if err != nil {
			return err
		}
		if s.Until && got.Status == s.Status {
			break
		}
		if err := w.compare(&s.Expect, got); !s.Until && err != nil {
			return err
		}
	}
	r := w.request(s.Request)
	got, err := w.target.Send(r)
	if err != nil {
		return err
	}
	want := s.Expect
	if err := w.compare(&want, got); err != nil {
		return fmt.Errorf("%s %s: %w\ngot %d %v\n%s", r.Method, r.Path, err, got.Status, got.Header, got.Body)
	}
	// Other answers may come from the gateway itself. It may refuse before it hands the
	// request over, by another plugin or because the route is for HTTPS only.
	answered := got.Status == http.StatusOK || got.Status == http.StatusBadRequest
	if endpointPath(r.Path) && answered &&
		(got.Header.Get("Cache-Control") != "no-store" || got.Header.Get("Pragma") != "no-cache") {
		return fmt.Errorf("%s %s: the answer may be stored: %v", r.Method, r.Path, got.Header)
	}
	return w.save(s.Save, got)
}

// endpointPath reports whether a path is an issuing endpoint.
func endpointPath(path string) bool {
	path, _, _ = strings.Cut(path, "?")
	path = strings.TrimSuffix(path, "/")
	return strings.HasSuffix(path, "/oauth2/token") || strings.HasSuffix(path, "/oauth2/authorize")
}

func (w *World) admin(s Step) error {
	status, body, err := w.target.Admin(s.Admin.Method, w.text(s.Admin.Path), w.document(s.Admin.Doc))
	if err != nil {
		return err
	}
	want := s.Admin.Status
	if want == 0 {
		want = http.StatusOK
	}
	if status != want {
		return fmt.Errorf("%s %s: %d %s", s.Admin.Method, w.text(s.Admin.Path), status, body)
	}
	got := &Response{Status: status, Body: string(body)}
	if err := w.compare(&Expect{Body: s.Body, Has: s.Has}, got); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", s.Admin.Method, w.text(s.Admin.Path), err, body)
	}
	return w.save(s.Save, got)
}

// request completes a request and replaces its variables.
func (w *World) request(r Request) Request {
	for name, form := range map[string]*string{"token": r.Token, "authorize": r.Authorize, "introspect": r.Introspect, "revoke": r.Revoke} {
		if form != nil {
			r.Path, r.Form, r.Method = "${route}/oauth2/"+name, *form, http.MethodPost
		}
	}
	r.Token, r.Authorize, r.Introspect, r.Revoke = nil, nil, nil, nil
	if r.Query != "" {
		r.Path += "?" + r.Query
		r.Query = ""
	}
	if r.Method == "" {
		r.Method = http.MethodGet
		if r.Form != "" || r.JSON != "" || r.Raw != "" || r.Multipart != nil {
			r.Method = http.MethodPost
		}
	}
	if r.Scheme == "" {
		r.Scheme = "https"
	}
	r.Path, r.Form, r.JSON, r.Raw, r.Host = w.text(r.Path), w.text(r.Form), w.text(r.JSON), w.text(r.Raw), w.text(r.Host)
	headers := map[string]Values{}
	for name, values := range r.Headers {
		for _, v := range values {
			headers[name] = append(headers[name], w.text(v))
		}
	}
	if r.Basic != "" {
		headers["Authorization"] = Values{"Basic " + base64.StdEncoding.EncodeToString([]byte(w.text(r.Basic)))}
		r.Basic = ""
	}
	fields := map[string]string{}
	for name, v := range r.Multipart {
		fields[name] = w.text(v)
	}
	r.Headers, r.Multipart = headers, fields
	return r
}

// Content returns the body of a request and its type.
func (r Request) Content() (kind, body string) {
	switch {
	case r.JSON != "":
		return "application/json", r.JSON
	case len(r.Multipart) > 0:
		const boundary = "case-boundary"
		var b strings.Builder
		for name, v := range r.Multipart {
			fmt.Fprintf(&b, "--%s\r\nContent-Disposition: form-data; name=%q\r\n\r\n%s\r\n", boundary, name, v)
		}
		return "multipart/form-data; boundary=" + boundary, b.String() + "--" + boundary + "--\r\n"
	case r.Raw != "" || r.Type != "":
		return r.Type, r.Raw
	case r.Form != "" || r.Method == http.MethodPost:
		return "application/x-www-form-urlencoded", r.Form
	}
	return "", ""
}

// save keeps parts of an answer for later steps.
func (w *World) save(what map[string]string, got *Response) error {
	if len(what) == 0 {
		return nil
	}
	var doc map[string]any
	if err := json.Unmarshal([]byte(got.Body), &doc); err != nil {
		return fmt.Errorf("the answer is no document: %w", err)
	}
	for name, member := range what {
		v := fmt.Sprint(doc[member])
		if parameter, ok := strings.CutPrefix(member, "redirect."); ok {
			u, err := url.Parse(fmt.Sprint(doc["redirect_uri"]))
			if err != nil {
				return err
			}
			inFragment, err := url.ParseQuery(u.Fragment)
			if err != nil {
				return err
			}
			if v = u.Query().Get(parameter); v == "" {
				v = inFragment.Get(parameter)
			}
		}
		if v == "" || v == "<nil>" {
			return fmt.Errorf("the answer has no %s", member)
		}
		w.vars[name] = v
	}
	return nil
}
