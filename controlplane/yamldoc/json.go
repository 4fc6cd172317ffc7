package yamldoc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"
	kyaml "sigs.k8s.io/yaml"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/turns"
)

// maxNodes bounds the scalars, lists and mappings of a YAML document. Each costs a hundred
// times as much memory as the two bytes that are enough to write it. JSON costs less, and has
// no such limit.
const maxNodes = 1 << 17

// parsing bounds how many YAML documents are parsed at the same time. A large one keeps a
// processor busy for a second.
var parsing = turns.New(32)

// JSON converts a YAML document that comes from outside into JSON. It has at most limit bytes.
// Errors are Invalid faults, and Unavailable if too many documents are parsed at once.
//
// Anchors and aliases are refused: a text that is written once and referred to a hundred
// thousand times turns a megabyte into gigabytes, and limits that count values do not notice.
// It also refuses a second document, and two keys of a mapping that are equal as texts,
// because one of the two would be dropped silently.
func JSON(ctx context.Context, raw []byte, limit int) ([]byte, error) {
	if len(raw) > limit {
		return nil, fault.New(fault.Invalid, "a document has at most %d bytes", limit)
	}
	if err := parsing.Enter(ctx); err != nil {
		return nil, err
	}
	defer parsing.Leave()
	doc, err := One(raw)
	if second, ok := errors.AsType[*SecondError](err); ok {
		return nil, fault.New(fault.Invalid, "%s; send each by itself", second)
	}
	if err != nil {
		return nil, notYAML(err)
	}
	// Aliases are not expanded in yaml.
	if count(doc) > maxNodes {
		return nil, fault.New(fault.Invalid, "a document of YAML has at most %d values and keys: send a larger one as JSON", maxNodes)
	}
	if refers(doc) {
		return nil, fault.New(fault.Invalid, "anchors and aliases of YAML are not taken here: write out what they stand for")
	}
	out, err := kyaml.YAMLToJSONStrict(raw)
	if err != nil {
		return nil, notYAML(err)
	}
	if keys(doc) != members(out) {
		return nil, fault.New(fault.Invalid, "two keys of one mapping are the same text%s: every key is read as text, so 1 is \"1\", and true is \"true\"", twins(doc))
	}
	return out, nil
}

func notYAML(err error) error { return fault.New(fault.Invalid, "the document is no YAML: %s", err) }

// count returns the number of nodes in a node, including itself.
func count(n *yaml.Node) int {
	all := 1
	for _, c := range n.Content {
		all += count(c)
	}
	return all
}

// refers reports whether anything in a node is an anchor or an alias.
func refers(n *yaml.Node) bool {
	return n.Kind == yaml.AliasNode || n.Anchor != "" || slices.ContainsFunc(n.Content, refers)
}

// keys counts the keys of all mappings in a node.
func keys(n *yaml.Node) (count int) {
	if n.Kind == yaml.MappingNode {
		count = len(n.Content) / 2
	}
	for _, c := range n.Content {
		count += keys(c)
	}
	return count
}

// members counts the members of all objects in a JSON document, which this program has made.
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

// twins says where two keys of one mapping are equal, if any are.
func twins(n *yaml.Node) string {
	seen := map[string]bool{}
	for i, c := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 {
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
