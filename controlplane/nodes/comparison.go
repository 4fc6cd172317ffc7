package nodes

import (
	"encoding/json"

	"github.com/meshgate/meshgate/controlplane/fault"
)

// Comparison shows the three configurations of a node side by side: the desired one, which the
// planner makes of what is stored, the one that was sent, and the acknowledged one.
type Comparison struct {
	Node string `json:"node"`
	// State is that of the node, such as connected.
	State string `json:"state"`
	// Acknowledged says that the node has acknowledged exactly what is desired.
	Acknowledged bool `json:"acknowledged"`
	// Problem says why it is not known what is desired. The resources are then compared with
	// what was sent.
	Problem string `json:"problem,omitempty"`
	// Resources are ordered by type, as types are sent, and by name.
	Resources []Compared `json:"resources"`
}

// Compared is one resource. A version is empty if there is no resource.
type Compared struct {
	Type    string `json:"type"`
	Name    string `json:"name"`
	Desired string `json:"desired"`
	Sent    string `json:"sent"`
	// Acknowledged is empty for a rejected resource: the node may hold an older version.
	Acknowledged string `json:"acknowledged"`
	// State is acknowledged, sent, rejected or due.
	State string `json:"state" jsonschema:"enum=acknowledged,enum=sent,enum=rejected,enum=due"`
	// Error says why the resource is rejected, in the proxy's words.
	Error string `json:"error,omitempty"`
	// Diff is the JSON patch that makes the acknowledged resource into the desired one. It
	// begins at the resource: an empty path stands for the whole of it. It is empty if only
	// concealed values differ.
	Diff []Edit `json:"diff,omitempty"`
}

// Edit is one operation of a JSON patch (RFC 6902, section 4): add, remove or replace.
type Edit struct {
	Op string `json:"op" jsonschema:"enum=add,enum=remove,enum=replace"`
	// Path is a JSON pointer (RFC 6901).
	Path string `json:"path"`
	// Value is absent for remove.
	Value json.RawMessage `json:"value,omitempty"`
}

// ParamInclude is the parameter of a query that asks for more, and IncludeDiff its value.
const (
	ParamInclude = "include"
	IncludeDiff  = "diff"
)

// WantsDiff reports whether the values of [ParamInclude] ask for a difference. Other values
// are Invalid.
func WantsDiff(include []string) (diff bool, err error) {
	for _, what := range include {
		if what != IncludeDiff {
			return false, Unsupported(ParamInclude)
		}
		diff = true
	}
	return diff, nil
}

// Unsupported is the error for a value that a parameter cannot have.
func Unsupported(parameter string) error {
	return fault.New(fault.Invalid, "bad request: unsupported value for query parameter '%s'", parameter)
}
