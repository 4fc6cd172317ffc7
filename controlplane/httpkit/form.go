package httpkit

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/meshgate/meshgate/controlplane/fault"
)

// maxIndex bounds the indexes of list elements in form names.
const maxIndex = 1000

// form builds the object that the names of form arguments describe:
//
//	a.b=v    a nested object        a[]=v   appends to a list
//	a[k]=v   an entry of a map      a[1]=v  the first element of a list
//	a=x&a=y  a list
//
// Leaves are texts. Names without such a meaning are taken literally. The schema decides
// whether a place may have a list.
func form(args []argument) Body {
	root := &node{}
	for _, a := range args {
		at := root
		for _, s := range segments(a.name) {
			at = at.child(s)
		}
		at.texts = append(at.texts, a.value)
	}
	b := Body{Values: make(map[string]any, len(root.named)), Text: true}
	for _, name := range slices.Sorted(maps.Keys(root.named)) {
		b.Values[name] = root.named[name].value()
		b.Repeated = root.named[name].dropped(b.Repeated, []string{name})
	}
	return b
}

// segment is one step of a name.
type segment struct {
	name  string
	index int  // of a list element, from 1; 0 if the step is a name
	next  bool // the step appends: []
}

// node is one place of the tree while it is built.
type node struct {
	texts    []string
	named    map[string]*node
	indexed  map[int]*node
	appended []*node
}

func (n *node) child(s segment) *node {
	switch {
	case s.next:
		c := &node{}
		n.appended = append(n.appended, c)
		return c
	case s.index > 0:
		if n.indexed[s.index] == nil {
			if n.indexed == nil {
				n.indexed = map[int]*node{}
			}
			n.indexed[s.index] = &node{}
		}
		return n.indexed[s.index]
	}
	if n.named[s.name] == nil {
		if n.named == nil {
			n.named = map[string]*node{}
		}
		n.named[s.name] = &node{}
	}
	return n.named[s.name]
}

// dropped adds the places whose texts are not in the value because the place also has names.
func (n *node) dropped(list []fault.Violation, path []string) []fault.Violation {
	if n.named != nil && (n.texts != nil || n.appended != nil) {
		list = note(list, path)
	}
	path = slices.Clip(path)
	for _, i := range slices.Sorted(maps.Keys(n.indexed)) {
		if n.named[strconv.Itoa(i)] != nil {
			list = note(list, append(path, strconv.Itoa(i))) // [i] and .i are the same name in a map
		}
		list = n.indexed[i].dropped(list, append(path, strconv.Itoa(i)))
	}
	for _, name := range slices.Sorted(maps.Keys(n.named)) {
		list = n.named[name].dropped(list, append(path, name))
	}
	for i, c := range n.appended {
		list = c.dropped(list, append(path, strconv.Itoa(i+1)))
	}
	return list
}

// value turns a node into text, list or map. If a form mixes the spellings at one place,
// names win over lists, and everything else becomes elements.
func (n *node) value() any {
	if n.named != nil {
		out := make(map[string]any, len(n.named)+len(n.indexed))
		for i, c := range n.indexed {
			out[strconv.Itoa(i)] = c.value()
		}
		for name, c := range n.named {
			out[name] = c.value()
		}
		return out
	}
	if n.indexed == nil && n.appended == nil && len(n.texts) == 1 {
		return n.texts[0]
	}
	out := make([]any, 0, len(n.texts)+len(n.indexed)+len(n.appended))
	for _, i := range slices.Sorted(maps.Keys(n.indexed)) {
		out = append(out, n.indexed[i].value())
	}
	for _, t := range n.texts {
		out = append(out, t)
	}
	for _, c := range n.appended {
		out = append(out, c.value())
	}
	return out
}

// segments splits a name. A name that is malformed or nests too deeply is a single segment.
func segments(name string) []segment {
	var out []segment
	rest := name
	for first := true; rest != "" || first; first = false {
		if !first && rest[0] == '[' {
			inner, after, ok := strings.Cut(rest[1:], "]")
			if !ok || after != "" && after[0] != '[' && after[0] != '.' {
				return []segment{{name: name}}
			}
			out, rest = append(out, bracketed(inner)), after
			continue
		}
		if !first {
			rest = strings.TrimPrefix(rest, ".")
		}
		end := strings.IndexAny(rest, ".[")
		if end < 0 {
			end = len(rest)
		}
		if end == 0 {
			return []segment{{name: name}}
		}
		out, rest = append(out, segment{name: rest[:end]}), rest[end:]
		if rest == "." || len(out) > MaxDepth {
			return []segment{{name: name}}
		}
	}
	if len(out) > MaxDepth {
		return []segment{{name: name}}
	}
	return out
}

func bracketed(inner string) segment {
	if inner == "" {
		return segment{next: true}
	}
	if i, err := strconv.Atoi(inner); err == nil && i > 0 && i <= maxIndex && inner[0] != '+' {
		return segment{index: i}
	}
	return segment{name: inner}
}
