package nodestest

import (
	"context"

	"github.com/meshgate/meshgate/controlplane/fault"
)

// Dumps answers questions for dumps, with the asked node and source in the answer. It holds
// errors by node.
type Dumps map[string]error

// XDS shows a dump without configuration. The source "nowhere" is invalid.
func (d Dumps) XDS(_ context.Context, node, from string, show func(dump []byte)) error {
	if err := d[node]; err != nil {
		return err
	}
	if from == "nowhere" {
		return fault.Violated([]fault.Violation{{Path: "source", Message: "must be one of two"}})
	}
	show([]byte(`{"configs":[{"of":"` + node + `","from":"` + from + `"}]}`))
	return nil
}
