package sidecar_test

import (
	"fmt"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/xds/draft"
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/policy/all"
	"github.com/meshgate/meshgate/xds/resource"
)

// sample is the spec of policies that exist only in tests.
type sample struct {
	mesh.Connection
	Selectors []mesh.Selector `json:"selectors,omitempty"`
	Conf      map[string]any  `json:"conf,omitempty"`
}

// SelectedDestinations implements model.Selecting.
func (s *sample) SelectedDestinations() []map[string]string {
	out := s.Connection.SelectedDestinations()
	for _, x := range s.Selectors {
		out = append(out, x.Match)
	}
	return out
}

func (s *sample) text(key string) string { text, _ := s.Conf[key].(string); return text }

// sampleKind returns the kind of a sample policy.
func sampleKind(name string) *model.Kind {
	return &model.Kind{
		Name: name, Path: name, Scoping: model.Mesh, Class: model.Config, New: func() any { return new(sample) },
		Document: &model.Document{Type: name, Singular: name, Plural: name, Policy: true},
	}
}

// TestTwentyPolicies: however many kinds of policies there are, each one edits.
func TestTwentyPolicies(t *testing.T) {
	policies := all.Policies()
	for i := len(policies); i < 20; i++ {
		mark := fmt.Sprintf("mark%d", i)
		policies = append(policies, &policy.Policy{
			Kind: sampleKind(mark), Phase: policy.Settings, Attachment: policy.ByDestination,
			Edits: policy.Edits{Cluster: func(d *draft.Cluster, _ *policy.Selection) error {
				if d.Proto.Metadata == nil {
					d.Proto.Metadata = &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{}}
				}
				d.Proto.Metadata.FilterMetadata[mark] = &structpb.Struct{}
				return nil
			}},
		})
	}
	w := newWorldOf(t, policies)
	pair("http")(w)
	for _, p := range policies[len(all.Policies()):] {
		w.put(p.Kind, meshName, "x", &sample{Connection: connection("*", "backend")})
	}
	w.settle()
	w.planner.Join("web-1")
	w.settle()
	c := load(t, w.planner.Set("web-1").Get(resource.Cluster, "backend"), new(clusterv3.Cluster))
	if got := len(c.GetMetadata().GetFilterMetadata()); got != 20-len(all.Policies()) {
		t.Errorf("%d of the policies edited the cluster", got)
	}
	last := policies[len(policies)-1]
	w.drop(last.Kind, "x")
	if changed := w.settle(); !changed["web-1"] {
		t.Error("the end of the last policy changes nothing")
	}
}
