package inspect

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/meshgate/meshgate/controlplane/nodes"
)

// TestDifference: the edits say what has changed, and nothing else.
func TestDifference(t *testing.T) {
	for name, c := range map[string]struct{ before, after, want string }{
		"nothing":              {`{"a":[1,{"b":2}]}`, `{"a":[1,{"b":2}]}`, ``},
		"a member":             {`{"a":1,"b":2}`, `{"a":1,"b":3}`, `replace /b 3`},
		"a member that is new": {`{}`, `{"a/b~c":null}`, `add /a~1b~0c null`},
		"a member that is gone": {
			`{"a":1,"b":2}`, `{"b":2}`, `remove /a `,
		},
		"the first of a list": {`["b","c"]`, `["a","b","c"]`, `add /0 "a"`},
		"out of a list":       {`["a","b","c","d"]`, `["a","d"]`, "remove /2 \nremove /1 "},
		"inside an item":      {`[{"x":1},{"x":2},{"x":3}]`, `[{"x":1},{"x":9},{"x":3}]`, `replace /1/x 9`},
		"another type":        {`{"a":[1]}`, `{"a":{"0":1}}`, `replace /a {"0":1}`},
		"the whole":           {`1`, `2`, `replace  2`},
		"a long number":       {`12345678901234567890`, `12345678901234567891`, `replace  12345678901234567891`},
	} {
		var lines []string
		for _, e := range difference("", must(t, c.before), must(t, c.after)) {
			lines = append(lines, e.Op+" "+e.Path+" "+string(e.Value))
		}
		if d := cmp.Diff(c.want, strings.Join(lines, "\n")); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}

// TestDifferenceIsAPatch: applied to the one value, the edits make the other.
func TestDifferenceIsAPatch(t *testing.T) {
	var value func(depth int) *rapid.Generator[any]
	value = func(depth int) *rapid.Generator[any] {
		return rapid.Custom(func(t *rapid.T) any {
			sort := rapid.IntRange(0, 4).Draw(t, "sort")
			switch {
			case sort == 0 && depth > 0:
				return rapid.MapOfN(rapid.SampledFrom([]string{"a", "b/c", "~d"}), value(depth-1), 0, 3).Draw(t, "object")
			case sort <= 2 && depth > 0:
				return rapid.SliceOfN(value(depth-1), 0, 5).Draw(t, "list")
			case sort == 3:
				return nil
			}
			return json.Number(strconv.Itoa(rapid.IntRange(0, 3).Draw(t, "number")))
		})
	}
	rapid.Check(t, func(t *rapid.T) {
		before, after := value(3).Draw(t, "before"), value(3).Draw(t, "after")
		edits := difference("", before, after)
		got, err := decode(encoded(before))
		for _, e := range edits {
			if err == nil {
				got, err = apply(got, strings.Split(e.Path, "/")[1:], e)
			}
		}
		want, _ := decode(encoded(after))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%v with %+v is %v: %v", before, edits, got, err)
		}
	})
}

func must(t *testing.T, text string) any {
	t.Helper()
	v, err := decode([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// apply applies an edit below a value, as RFC 6902 says.
func apply(v any, path []string, e nodes.Edit) (any, error) {
	if len(path) == 0 {
		return decode(e.Value)
	}
	name := strings.NewReplacer("~1", "/", "~0", "~").Replace(path[0])
	switch v := v.(type) {
	case map[string]any:
		child, there := v[name]
		if last := len(path) == 1; !there && (!last || e.Op != "add") {
			return nil, fmt.Errorf("%s: no member", e.Path)
		} else if last && e.Op == "remove" {
			delete(v, name)
			return v, nil
		}
		next, err := apply(child, path[1:], e)
		v[name] = next
		return v, err
	case []any:
		i, err := strconv.Atoi(name)
		if err != nil || i < 0 || i > len(v) || i == len(v) && e.Op != "add" {
			return nil, fmt.Errorf("%s: no item", e.Path)
		}
		switch {
		case len(path) == 1 && e.Op == "remove":
			return append(v[:i:i], v[i+1:]...), nil
		case len(path) == 1 && e.Op == "add":
			item, err := decode(e.Value)
			return append(append(v[:i:i], item), v[i:]...), err
		}
		next, err := apply(v[i], path[1:], e)
		v[i] = next
		return v, err
	}
	return nil, fmt.Errorf("%s leads into a plain value", e.Path)
}
