package inspect

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/meshgate/meshgate/controlplane/insight"
	"github.com/meshgate/meshgate/xds/resource"

	// These are the types of messages in resources, needed for their JSON form.
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/tls_inspector/v3"
)

// These are the sources of a record. All begin alike, and the dump of a proxy has none.
const (
	SourceAway  = "control plane: the proxy is away; this is what it was last sent"
	SourceAsked = "control plane: this is what the proxy was sent"
	// SourceUnasked is for an Envoy without an agent, or one whose agent is just returning.
	SourceUnasked = "control plane: the proxy cannot be asked at present; this is what it was sent"
	// SourceNothing is for a proxy that was not seen since the control plane started.
	SourceNothing = "control plane: the proxy is away and was sent nothing since the control plane started"
	// sourceSilent is followed by the reason.
	sourceSilent = "control plane: the proxy did not answer, and this is what it was sent; the reason: "
)

// These are the states of a resource in a record.
const (
	// Acknowledged means that the proxy has answered the resource and does not refuse it.
	Acknowledged = "acknowledged"
	// Sent means that the proxy has not answered it yet, or that it is just being sent.
	Sent = "sent"
	// Rejected means that the proxy refused it, perhaps together with others. The error is the
	// proxy's.
	Rejected = "rejected"
	// Due means that the proxy was not sent the resource as it should be. Only a comparison
	// has this state.
	Due = "due"
)

// Known is what the control plane knows about the configuration of a node.
type Known struct {
	// Set is what the node was last sent. Answered is the newest set that it has answered as a
	// whole; see publish.Loop.Last.
	Set, Answered *resource.Set
	// Refused is what the node refuses, or refused when it left.
	Refused []insight.Rejected
}

// record is the document that replaces a dump of a proxy.
type record struct {
	Source string `json:"source"`
	// Acknowledged says that the proxy has confirmed everything.
	Acknowledged bool `json:"acknowledged"`
	// Rejected lists what the proxy refused.
	Rejected []string `json:"rejected,omitempty"`
	// Configs has one entry per type of resource.
	Configs []recordedType `json:"configs"`
}

type recordedType struct {
	Type      string             `json:"type"`
	Resources []recordedResource `json:"resources"`
}

type recordedResource struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	State   string `json:"state"`
	// Error says why the resource is rejected.
	Error string `json:"error,omitempty"`
	// Config is the resource. It is absent for secrets, which are made for the proxy and
	// stored nowhere.
	Config json.RawMessage `json:"config,omitempty"`
}

// Record returns the configuration of a node as the control plane knows it, as a JSON object
// with the key configs.
func Record(source string, k Known) ([]byte, error) {
	doc := record{
		Source: source, Configs: []recordedType{},
		Acknowledged: k.Set != nil && len(k.Refused) == 0 && k.Set.Equal(k.Answered),
	}
	for _, r := range k.Refused {
		doc.Rejected = append(doc.Rejected, r.Type+": "+r.Error)
	}
	for _, t := range resource.Types {
		rt := recordedType{Type: string(t), Resources: []recordedResource{}}
		for _, r := range k.Set.All(t) {
			config, err := protojson.Marshal(&anypb.Any{TypeUrl: string(r.Type), Value: r.Body})
			if err != nil {
				return nil, fmt.Errorf("show %s: %w", r.Name, err)
			}
			answered := k.Answered.Get(t, r.Name)
			rt.Resources = append(rt.Resources, k.entry(t, r.Name, r.Version, answered != nil && answered.Version == r.Version, config))
		}
		for _, name := range k.Set.Secrets() {
			if t == resource.Secret && k.Set.Get(t, name) == nil {
				generation, _ := k.Set.Generation(name)
				answered, known := k.Answered.Generation(name)
				rt.Resources = append(rt.Resources, k.entry(t, name, generation, known && answered == generation, nil))
			}
		}
		doc.Configs = append(doc.Configs, rt)
	}
	return json.MarshalIndent(doc, "", " ")
}

// entry returns the entry of one resource.
func (k Known) entry(t resource.TypeURL, name, version string, answered bool, config json.RawMessage) recordedResource {
	r := recordedResource{Name: name, Version: version, State: Sent, Config: config}
	if answered {
		r.State = Acknowledged
	}
	for _, refused := range k.Refused {
		if strings.HasSuffix(string(t), "."+refused.Type) && slices.Contains(refused.Resources, name) {
			r.State, r.Error = Rejected, refused.Error
		}
	}
	return r
}
