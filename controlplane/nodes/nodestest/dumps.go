package nodestest

import (
	"context"
	"strconv"
	"strings"

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

// Ask shows the path that an Envoy would be asked for.
func (d Dumps) Ask(_ context.Context, node, path string, show func(page []byte)) error {
	if err := d[node]; err != nil {
		return err
	}
	text := node + " says " + path
	if strings.Contains(path, "format=json") {
		text = strconv.Quote(text)
	}
	show([]byte(text))
	return nil
}
