// Package yamldoc reads YAML that must be one document ([One]), and turns a document from outside
// into JSON within limits ([JSON]). The decoders of YAML stop after the first document of a
// stream: a second one, such as half of a configuration, would be dropped silently.
package yamldoc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"go.yaml.in/yaml/v3"
)

// SecondError is the error of a stream with more than one document.
type SecondError struct {
	// Line is where the second one begins, from 1.
	Line int
}

// Error implements error.
func (e *SecondError) Error() string {
	return fmt.Sprintf("more than one YAML document: the second begins in line %d", e.Line)
}

// One returns the document of a stream, or a node without content if there is none. Further
// documents must be empty, such as the one after a last line "---". The error is a
// [*SecondError] or an error of the decoder.
func One(raw []byte) (*yaml.Node, error) {
	stream := yaml.NewDecoder(bytes.NewReader(raw))
	first := new(yaml.Node)
	if err := stream.Decode(first); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	for {
		var next yaml.Node
		switch err := stream.Decode(&next); {
		case errors.Is(err, io.EOF):
			return first, nil
		case err != nil:
			return nil, err
		case slices.ContainsFunc(next.Content, func(n *yaml.Node) bool { return n.ShortTag() != "!!null" }):
			return nil, &SecondError{next.Line}
		}
	}
}
