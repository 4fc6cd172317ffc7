package inspect

import (
	"encoding/json"
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/snapshot"

	// The types of what is in the resources, for their JSON form.
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/tls_inspector/v3"
)

// SourceRecord marks a dump that does not come from the proxy.
const SourceRecord = "control plane: the proxy is away; this is what it was last sent"

// record is the document that stands for a dump of a proxy that is away.
type record struct {
	Source string `json:"source"`
	// Acknowledged says that the proxy has confirmed all of it.
	Acknowledged bool `json:"acknowledged"`
	// Rejected lists what it refused.
	Rejected []string `json:"rejected,omitempty"`
	// Configs has one entry for each type of resource.
	Configs []recordedType `json:"configs"`
}

type recordedType struct {
	Type      string             `json:"type"`
	Resources []recordedResource `json:"resources"`
}

type recordedResource struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	// Config is the resource, absent for secrets: those are made for the proxy
	// and kept nowhere.
	Config json.RawMessage `json:"config,omitempty"`
}

// Record shows the configuration of a node as the control plane knows it, as a
// JSON object with the key configs. rejections are those of the node that stand.
func Record(set *resource.Set, acknowledged bool, rejections []snapshot.Rejection) ([]byte, error) {
	doc := record{Source: SourceRecord, Acknowledged: acknowledged, Configs: []recordedType{}}
	for _, r := range rejections {
		doc.Rejected = append(doc.Rejected, string(r.Type)+": "+r.Error)
	}
	for _, t := range resource.Types {
		rt := recordedType{Type: string(t), Resources: []recordedResource{}}
		for _, r := range set.All(t) {
			config, err := protojson.Marshal(&anypb.Any{TypeUrl: string(r.Type), Value: r.Body})
			if err != nil {
				return nil, fmt.Errorf("show %s: %w", r.Name, err)
			}
			rt.Resources = append(rt.Resources, recordedResource{r.Name, r.Version, config})
		}
		for _, name := range set.Secrets() {
			if t == resource.Secret && set.Get(t, name) == nil {
				generation, _ := set.Generation(name)
				rt.Resources = append(rt.Resources, recordedResource{Name: name, Version: generation})
			}
		}
		doc.Configs = append(doc.Configs, rt)
	}
	return json.MarshalIndent(doc, "", " ")
}
