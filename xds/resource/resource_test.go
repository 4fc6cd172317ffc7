package resource_test

import (
	"testing"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"github.com/google/go-cmp/cmp"
	"github.com/meshgate/meshgate/xds/resource"
	"google.golang.org/protobuf/proto"
)

func TestDiffAndEqual(t *testing.T) {
	a, b := resource.New(resource.Cluster, "a", []byte("1")), resource.New(resource.Cluster, "b", []byte("1"))
	a2 := resource.New(resource.Cluster, "a", []byte("2"))
	old, now := resource.NewSet([]*resource.Resource{a, b}, nil), resource.NewSet([]*resource.Resource{a2}, nil)
	if d := cmp.Diff(resource.Diff{Changed: []*resource.Resource{a2}, Removed: []string{"b"}}, now.Diff(old, resource.Cluster)); d != "" {
		t.Fatal(d)
	}
	same := resource.NewSet([]*resource.Resource{resource.New(resource.Cluster, "b", []byte("1")), a}, nil)
	if !same.Equal(old) || old.Equal(now) || !(*resource.Set)(nil).Equal(resource.NewSet(nil, nil)) {
		t.Fatal("sets compare by content")
	}
	if old.Equal(resource.NewSet([]*resource.Resource{a, b}, map[string]string{"s": ""})) {
		t.Fatal("an allowed secret is a difference")
	}
}

func TestEmptyIsAnAssignment(t *testing.T) {
	name := string(make([]byte, 300)) // a length of two bytes
	var m endpointv3.ClusterLoadAssignment
	if err := proto.Unmarshal(resource.Empty(name).Body, &m); err != nil {
		t.Fatal(err)
	}
	if !proto.Equal(&m, &endpointv3.ClusterLoadAssignment{ClusterName: name}) {
		t.Fatalf("decoded %v", &m)
	}
}
