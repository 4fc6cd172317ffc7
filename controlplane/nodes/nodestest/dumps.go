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

// Configuration shows no resources, and what was asked for.
func (d Dumps) Configuration(_ context.Context, node string, shadow, diff bool, show func(doc []byte)) error {
	if err := d[node]; err != nil {
		return err
	}
	text := `{"xds":{"` + node + `":{"shadow ` + strconv.FormatBool(shadow) + `":{}}}`
	if diff {
		text += `,"diff":[]`
	}
	show([]byte(text + "}"))
	return nil
}

// Compare shows one resource, with a difference if that was asked for.
func (d Dumps) Compare(_ context.Context, node string, diff bool, show func(doc []byte)) error {
	if err := d[node]; err != nil {
		return err
	}
	text := `{"node":"` + node + `","state":"connected","acknowledged":false,"resources":[{"type":"a.Cluster","name":"c","desired":"2","sent":"2","acknowledged":"1","state":"sent"`
	if diff {
		text += `,"diff":[{"op":"replace","path":"/x","value":1}]`
	}
	show([]byte(text + "}]}"))
	return nil
}
