package model

import (
	"bytes"
	"slices"

	nodes "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"

	"github.com/meshgate/meshgate/controlplane/fault"
)

// FromYAML returns a document that is YAML as JSON, within the limit of documents.
// Its errors are Invalid faults.
//
// Anchors and aliases are refused: a text that is written once and referred to a
// hundred thousand times makes gigabytes of a megabyte, and limits that count
// values do not see it.
func FromYAML(raw []byte) ([]byte, error) {
	if len(raw) > MaxDocument {
		return nil, fault.New(fault.Invalid, "a document has at most %d bytes", MaxDocument)
	}
	// Without the mark of an anchor there is nothing to refer to. Nodes are not
	// expanded.
	if bytes.IndexByte(raw, '&') >= 0 {
		var doc nodes.Node
		if err := nodes.Unmarshal(raw, &doc); err != nil {
			return nil, fault.New(fault.Invalid, "the document is no YAML: %s", err)
		}
		if refers(&doc) {
			return nil, fault.New(fault.Invalid, "anchors and aliases of YAML are not taken here: write out what they stand for")
		}
	}
	out, err := yaml.YAMLToJSONStrict(raw)
	if err != nil {
		return nil, fault.New(fault.Invalid, "the document is no YAML: %s", err)
	}
	return out, nil
}

// refers reports whether anything in a node is an anchor or an alias.
func refers(n *nodes.Node) bool {
	return n.Kind == nodes.AliasNode || n.Anchor != "" || slices.ContainsFunc(n.Content, refers)
}
