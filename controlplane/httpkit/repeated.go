package httpkit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"

	"github.com/meshgate/meshgate/controlplane/fault"
)

// If a member is given twice, only one of the two counts, and only the decoder knows which.
// A proxy or a person that looks at the other one sees a different request.

const (
	// TextTwice is said of a member that is given twice.
	TextTwice = "is given twice"
	// maxRepeated bounds the members that are named, and maxSegment the bytes of each name.
	maxRepeated = 100
	maxSegment  = 100
)

// DecodeObject reads a body that is exactly one JSON object into a struct. It refuses
// members that are unknown or given twice. Like encoding/json, it compares the names of the
// struct's own members without regard to case. The error is for the client.
func DecodeObject(raw []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return explained(err, into)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the object")
	}
	if twice := givenTwice(raw, true); len(twice) > 0 {
		return fmt.Errorf("%s %s", twice[0].Path, twice[0].Message)
	}
	return nil
}

// explained adds to the error of an unknown member which one was probably meant. The decoder
// has no type for that error.
func explained(err error, into any) error {
	quoted, unknown := strings.CutPrefix(err.Error(), "json: unknown field ")
	name, unquoted := strconv.Unquote(quoted)
	if !unknown || unquoted != nil {
		return err
	}
	var known []string
	for t, i := reflect.TypeOf(into).Elem(), 0; t.Kind() == reflect.Struct && i < t.NumField(); i++ {
		if name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ","); name != "" && name != "-" {
			known = append(known, name)
		}
	}
	return fmt.Errorf("unknown field %s%s", quoted, fault.Meant(name, known))
}

// givenTwice lists the members of a valid JSON document that are given twice, at any depth.
// List elements are counted from 1. folded says that the case of letters does not matter in
// the names of the outermost object.
func givenTwice(raw []byte, folded bool) []fault.Violation {
	r := &repeats{tokens: json.NewDecoder(bytes.NewReader(raw)), folded: folded}
	r.tokens.UseNumber()
	r.value()
	return r.found
}

// repeats walks a document that has been decoded before, so it is valid and not too deep.
type repeats struct {
	tokens *json.Decoder
	folded bool
	path   []string
	found  []fault.Violation
}

func (r *repeats) value() {
	start, err := r.tokens.Token()
	if err != nil {
		return
	}
	switch start {
	case json.Delim('{'):
		r.object()
	case json.Delim('['):
		for i := 1; r.tokens.More(); i++ {
			r.below(strconv.Itoa(i))
		}
		_, _ = r.tokens.Token()
	}
}

func (r *repeats) object() {
	seen := map[string]struct{}{}
	for r.tokens.More() {
		token, err := r.tokens.Token()
		name, ok := token.(string)
		if err != nil || !ok {
			return
		}
		is := name
		if r.folded && len(r.path) == 0 {
			is = strings.ToLower(name)
		}
		before := len(seen)
		if seen[is] = struct{}{}; len(seen) == before {
			r.found = note(r.found, append(r.path, name))
		}
		r.below(name)
	}
	_, _ = r.tokens.Token()
}

// below reads the value at a name or an index.
func (r *repeats) below(segment string) {
	r.path = append(r.path, segment)
	r.value()
	r.path = r.path[:len(r.path)-1]
}

// note adds a violation unless there are too many. It builds paths only for violations: if
// it built one for every member, a document with a long name would cost its length times its
// members.
func note(list []fault.Violation, path []string) []fault.Violation {
	if len(list) == maxRepeated {
		return list
	}
	shown := make([]string, len(path))
	for i, s := range path {
		if shown[i] = s; len(s) > maxSegment {
			shown[i] = strings.ToValidUTF8(s[:maxSegment], "") + "…"
		}
	}
	return append(list, fault.Violation{Path: strings.Join(shown, "."), Message: TextTwice})
}
