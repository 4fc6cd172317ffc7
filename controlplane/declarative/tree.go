package declarative

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/meshgate/meshgate/controlplane/yamldoc"
)

// Limits of a file. They count nodes, because aliases can make a small file large.
const (
	maxNodes = 1 << 20
	maxDepth = 32
)

// node is a value of the document with its line.
type node struct {
	line int
	// names lists the members of an object in order, fields holds their values.
	names  []string
	fields map[string]*node
	// items are the elements of a list; isList distinguishes an empty list from null.
	items  []*node
	isList bool
	// scalar is a text, number (int64 or float64), boolean or nil.
	scalar any
	// replaced is set if a part of the scalar comes from the environment.
	replaced bool
}

// parse reads one YAML (or JSON) document. env replaces references to the environment; nil
// refuses them.
func parse(data []byte, problems *Problems, env *environment) *node {
	doc, err := yamldoc.One(data)
	if second, ok := errors.AsType[*yamldoc.SecondError](err); ok {
		problems.add(second.Line, "", "the file holds more than one document")
		return nil
	}
	if err != nil {
		line, text := 1, strings.TrimPrefix(err.Error(), "yaml: ")
		if _, scanned := fmt.Sscanf(text, "line %d:", &line); scanned == nil {
			_, text, _ = strings.Cut(text, ": ")
		}
		problems.add(line, "", "not valid YAML: %s", text)
		return nil
	}
	if len(doc.Content) == 0 {
		problems.add(1, "", "the file is empty")
		return nil
	}
	r := &treeReader{problems: problems, env: env}
	root := r.read(doc.Content[0], 0)
	if r.nodes > maxNodes {
		problems.add(root.line, "", "the document has more than %d values", maxNodes)
		return nil
	}
	return root
}

type treeReader struct {
	problems *Problems
	env      *environment
	nodes    int
}

func (r *treeReader) read(y *yaml.Node, depth int) *node {
	n := &node{line: y.Line}
	if r.nodes++; r.nodes > maxNodes {
		return n
	}
	if depth > maxDepth {
		r.problems.add(y.Line, "", "values nest deeper than %d", maxDepth)
		return n
	}
	switch y.Kind {
	case yaml.AliasNode:
		// The problem is the use of the alias, not its target.
		n = r.read(y.Alias, depth+1)
		n.line = y.Line
	case yaml.SequenceNode:
		n.isList = true
		for _, item := range y.Content {
			n.items = append(n.items, r.read(item, depth+1))
		}
	case yaml.MappingNode:
		r.object(n, y, depth)
	default:
		before := r.env.used()
		n.scalar = r.scalar(y)
		n.replaced = r.env.used() > before
	}
	return n
}

func (r *treeReader) object(n *node, y *yaml.Node, depth int) {
	n.fields = map[string]*node{}
	for i := 0; i+1 < len(y.Content); i += 2 {
		key, value := y.Content[i], y.Content[i+1]
		if key.Kind != yaml.ScalarNode || key.ShortTag() == "!!merge" {
			r.problems.add(key.Line, "", "expected a plain name")
			continue
		}
		if _, twice := n.fields[key.Value]; twice {
			r.problems.add(key.Line, key.Value, "is given twice")
			continue
		}
		n.names = append(n.names, key.Value)
		n.fields[key.Value] = r.read(value, depth+1)
		n.fields[key.Value].line = key.Line
	}
}

// scalar gives a plain value its type. Types that JSON does not have stay texts. Placeholders
// that somebody should have replaced are problems, because they would be taken literally.
func (r *treeReader) scalar(y *yaml.Node) any {
	if strings.Contains(y.Value, opening) {
		replaced := *y
		var err error
		if replaced.Value, err = r.env.replace(y.Value); err != nil {
			r.problems.add(y.Line, "", "%v", err)
			return y.Value
		}
		if y.Style == 0 { // as if the value stood in the file
			replaced.Tag = ""
		}
		y = &replaced
	}
	tag := y.ShortTag()
	if !strings.HasPrefix(tag, "!!") {
		r.problems.add(y.Line, "", "the tag %s means nothing here", tag)
	}
	switch tag {
	case "!!null":
		return nil
	case "!!bool":
		return strings.EqualFold(y.Value, "true")
	case "!!int":
		if i, err := strconv.ParseInt(y.Value, 0, 64); err == nil {
			return i
		}
	case "!!float":
		if f, err := strconv.ParseFloat(y.Value, 64); err == nil {
			return f
		}
	}
	return y.Value
}

// plain returns the value without lines, for the schema of a kind.
func (n *node) plain() any {
	switch {
	case n.fields != nil:
		out := make(map[string]any, len(n.fields))
		for name, f := range n.fields {
			out[name] = f.plain()
		}
		return out
	case n.isList:
		out := make([]any, len(n.items))
		for i, item := range n.items {
			out[i] = item.plain()
		}
		return out
	}
	return n.scalar
}

// find follows the path of a violation as far as it exists. It returns the path in the
// notation for files, with indexes from 0 in brackets.
func (n *node) find(path string) (line int, written string) {
	line = n.line
	for segment := range strings.SplitSeq(path, ".") {
		i, err := strconv.Atoi(segment)
		if err == nil && n != nil && n.isList {
			written += "[" + strconv.Itoa(i-1) + "]"
		} else if segment != "" {
			written += "." + segment
		}
		switch {
		case n == nil:
		case err == nil && i >= 1 && i <= len(n.items):
			n = n.items[i-1]
		default:
			n = n.fields[segment]
		}
		if n != nil {
			line = n.line
		}
	}
	return line, written
}
