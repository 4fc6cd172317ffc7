package model

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	nodes "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/turns"
	"github.com/meshgate/meshgate/controlplane/yamldoc"
)

// maxNodes bounds the scalars, lists and mappings of a document that is YAML: each costs a
// hundred times as much as the two bytes that it may be written with. JSON costs less, and
// has no such limit.
const maxNodes = 1 << 17

// parsing are the turns of documents that are YAML: a large one keeps a processor busy for a
// second.
var parsing = turns.New(32)

// FromYAML returns a document that is YAML as JSON, within the limits of documents.
// Its errors are Invalid faults, and Unavailable where too many are parsed at once.
//
// Anchors and aliases are refused: a text that is written once and referred to a
// hundred thousand times makes gigabytes of a megabyte, and limits that count
// values do not see it. A second document, and a key that is another one once both
// are text, are refused, because one of two would be dropped without a word.
func FromYAML(ctx context.Context, raw []byte) ([]byte, error) {
	if len(raw) > MaxDocument {
		return nil, fault.New(fault.Invalid, "a document has at most %d bytes", MaxDocument)
	}
	if err := parsing.Enter(ctx); err != nil {
		return nil, err
	}
	defer parsing.Leave()
	doc, err := yamldoc.One(raw)
	if second, ok := errors.AsType[*yamldoc.SecondError](err); ok {
		return nil, fault.New(fault.Invalid, "%s; send each by itself", second)
	}
	if err != nil {
		return nil, notYAML(err)
	}
	// Nodes are not expanded.
	if count(doc) > maxNodes {
		return nil, fault.New(fault.Invalid, "a document of YAML has at most %d values and keys: send a larger one as JSON", maxNodes)
	}
	if refers(doc) {
		return nil, fault.New(fault.Invalid, "anchors and aliases of YAML are not taken here: write out what they stand for")
	}
	out, err := yaml.YAMLToJSONStrict(raw)
	if err != nil {
		return nil, notYAML(err)
	}
	if keys(doc) != members(out) {
		return nil, fault.New(fault.Invalid, "two keys of one mapping are the same text%s: every key is read as text, so 1 is \"1\", and true is \"true\"", twins(doc))
	}
	return out, nil
}

func notYAML(err error) error { return fault.New(fault.Invalid, "the document is no YAML: %s", err) }

// count is how many nodes there are in a node, itself included.
func count(n *nodes.Node) int {
	all := 1
	for _, c := range n.Content {
		all += count(c)
	}
	return all
}

// refers reports whether anything in a node is an anchor or an alias.
func refers(n *nodes.Node) bool {
	return n.Kind == nodes.AliasNode || n.Anchor != "" || slices.ContainsFunc(n.Content, refers)
}

// keys counts the keys of all mappings in a node.
func keys(n *nodes.Node) (count int) {
	if n.Kind == nodes.MappingNode {
		count = len(n.Content) / 2
	}
	for _, c := range n.Content {
		count += keys(c)
	}
	return count
}

// members counts the members of all objects in a JSON document that this program made.
func members(raw []byte) (count int) {
	var value any
	if json.Unmarshal(raw, &value) != nil {
		return -1
	}
	return membersOf(value)
}

func membersOf(value any) (count int) {
	switch v := value.(type) {
	case map[string]any:
		count = len(v)
		for _, e := range v {
			count += membersOf(e)
		}
	case []any:
		for _, e := range v {
			count += membersOf(e)
		}
	}
	return count
}

// twins says where two keys of one mapping look alike, if any do.
func twins(n *nodes.Node) string {
	seen := map[string]bool{}
	for i, c := range n.Content {
		if n.Kind == nodes.MappingNode && i%2 == 0 {
			if seen[c.Value] {
				return fmt.Sprintf(" (line %d, %q)", c.Line, c.Value)
			}
			seen[c.Value] = true
		}
		if at := twins(c); at != "" {
			return at
		}
	}
	return ""
}
