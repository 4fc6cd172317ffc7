package nodestest

import (
	"context"

	"github.com/meshgate/meshgate/controlplane/fault"
)

// Dumps says whose dump was asked for, and where from; the errors are by node.
type Dumps map[string]error

// XDS shows a dump without configuration. From nowhere there is none.
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
