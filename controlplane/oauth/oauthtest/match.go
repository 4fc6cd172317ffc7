package oauthtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// compare returns what is wrong with an answer.
func (w *World) compare(want *Expect, got *Response) error {
	var wrong []error
	if want.Status != 0 && got.Status != want.Status {
		wrong = append(wrong, fmt.Errorf("want status %d", want.Status))
	}
	if want.Text != nil && !w.fits(*want.Text, got.Body) {
		wrong = append(wrong, fmt.Errorf("want the body %q", *want.Text))
	}
	body := want.Body
	switch {
	case want.Error != "":
		kind, description, _ := strings.Cut(want.Error, " / ")
		doc := map[string]any{"error": kind, "error_description": description}
		if want.State != nil {
			doc["state"] = want.State
		}
		body = doc
	case want.Redirect != "":
		body = map[string]any{"redirect_uri": want.Redirect}
	}
	wrong = append(wrong, w.documentWrong(body, want.Has, got.Body)...)
	for name, v := range want.Answer {
		if has := strings.Join(got.Header.Values(name), "|"); !w.fits(v, has) {
			wrong = append(wrong, fmt.Errorf("want the header %s: %q, not %q", name, v, has))
		}
	}
	if want.Upstream != nil {
		wrong = append(wrong, w.upstream(want.Upstream, got.Body)...)
	}
	return errors.Join(wrong...)
}

// documentWrong compares a whole document, and some members of one.
func (w *World) documentWrong(body any, has map[string]any, got string) (wrong []error) {
	if body == nil && has == nil {
		return nil
	}
	var doc any
	if err := json.Unmarshal([]byte(got), &doc); err != nil {
		return []error{fmt.Errorf("the body is no document: %w", err)}
	}
	if body != nil && !w.equal(body, doc) {
		wrong = append(wrong, fmt.Errorf("want the document %v", w.document(body)))
	}
	members, _ := doc.(map[string]any)
	for name, v := range has {
		is, present := members[name]
		if v == nil && !present {
			continue
		}
		if !present || !w.equal(v, is) {
			wrong = append(wrong, fmt.Errorf("want %s: %v, not %v", name, w.document(v), is))
		}
	}
	return wrong
}

// upstream compares a request with what the upstream reports to have received.
func (w *World) upstream(want *Received, body string) (wrong []error) {
	var got struct {
		Path    string
		Body    string
		Headers map[string][]string
	}
	if err := json.Unmarshal([]byte(body), &got); err != nil || got.Headers == nil {
		return []error{errors.New("the upstream did not answer")}
	}
	if want.Path != "" && !w.fits(want.Path, got.Path) {
		wrong = append(wrong, fmt.Errorf("want the upstream to see the path %s", w.text(want.Path)))
	}
	if want.Body != nil && !w.fits(*want.Body, got.Body) {
		wrong = append(wrong, fmt.Errorf("want the upstream to see the body %s", w.text(*want.Body)))
	}
	for name, v := range want.Headers {
		if has := strings.Join(got.Headers[name], "|"); !w.fits(v, has) {
			wrong = append(wrong, fmt.Errorf("want the upstream to see %s: %q, not %q", name, w.text(v), has))
		}
	}
	return wrong
}

// equal compares documents, with placeholders in the wanted texts.
func (w *World) equal(want, got any) bool {
	switch want := want.(type) {
	case string:
		if want == "<int>" { // alone it stands for a number, inside a text for digits
			number, ok := got.(float64)
			return ok && number == float64(int64(number))
		}
		text, ok := got.(string)
		return ok && w.fits(want, text)
	case []any:
		list, ok := got.([]any)
		if !ok || len(list) != len(want) {
			return false
		}
		for i := range want {
			if !w.equal(want[i], list[i]) {
				return false
			}
		}
		return true
	case map[string]any:
		members, ok := got.(map[string]any)
		if !ok || len(members) != len(want) {
			return false
		}
		for name, v := range want {
			if is, present := members[name]; !present || !w.equal(v, is) {
				return false
			}
		}
		return true
	}
	return want == got // numbers, booleans and null must also have the same type
}

var placeholders = strings.NewReplacer(
	"<random>", "[A-Za-z0-9]{32}", "<int>", "[0-9]+", "<any>", "(?s:.*)",
	"<uuid>", "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}",
)

// fits compares texts, with placeholders in the wanted one.
func (w *World) fits(want, got string) bool {
	pattern, err := regexp.Compile("^" + placeholders.Replace(regexp.QuoteMeta(w.text(want))) + "$")
	return err == nil && pattern.MatchString(got)
}
