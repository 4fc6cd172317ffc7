package inspect

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/meshgate/meshgate/controlplane/nodes"
)

// difference returns the edits that make one JSON value into another, in the order in which
// they are to be applied. Values are as decode returns them. In lists, equal items at both ends
// are left alone, and the items between are compared one by one. This takes time that grows
// with the sizes of the values, where a shortest patch would take the square of it: a list of
// routes has thousands of items.
func difference(path string, before, after any) []nodes.Edit {
	switch b := before.(type) {
	case map[string]any:
		if a, ok := after.(map[string]any); ok {
			return differenceOfObjects(path, b, a)
		}
	case []any:
		if a, ok := after.([]any); ok {
			return differenceOfLists(path, b, a)
		}
	}
	if reflect.DeepEqual(before, after) {
		return nil
	}
	return []nodes.Edit{{Op: "replace", Path: path, Value: encoded(after)}}
}

func differenceOfObjects(path string, before, after map[string]any) (out []nodes.Edit) {
	for _, name := range slices.Sorted(maps.Keys(before)) {
		at := path + pointer(name)
		if a, kept := after[name]; kept {
			out = append(out, difference(at, before[name], a)...)
		} else {
			out = append(out, nodes.Edit{Op: "remove", Path: at})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if _, known := before[name]; !known {
			out = append(out, nodes.Edit{Op: "add", Path: path + pointer(name), Value: encoded(after[name])})
		}
	}
	return out
}

func differenceOfLists(path string, before, after []any) (out []nodes.Edit) {
	short := min(len(before), len(after))
	head, tail := 0, 0
	for head < short && reflect.DeepEqual(before[head], after[head]) {
		head++
	}
	for tail < short-head && reflect.DeepEqual(before[len(before)-1-tail], after[len(after)-1-tail]) {
		tail++
	}
	at := func(i int) string { return path + "/" + strconv.Itoa(i) }
	paired := short - tail
	for i := head; i < paired; i++ {
		out = append(out, difference(at(i), before[i], after[i])...)
	}
	for i := len(before) - tail - 1; i >= paired; i-- { // from the end, so that no index moves
		out = append(out, nodes.Edit{Op: "remove", Path: at(i)})
	}
	for i := paired; i < len(after)-tail; i++ {
		out = append(out, nodes.Edit{Op: "add", Path: at(i), Value: encoded(after[i])})
	}
	return out
}

// pointer returns a member's name as a token of a JSON pointer (RFC 6901, section 3).
func pointer(name string) string {
	return "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}

// decode reads a JSON value. Numbers keep their digits.
func decode(text []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	return v, d.Decode(&v)
}

// encoded writes a value that decode has read.
func encoded(v any) json.RawMessage {
	text, _ := json.Marshal(v) // a decoded value can always be encoded
	return text
}
