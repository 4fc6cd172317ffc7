package proxytemplate

import (
	"strings"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/durationpb"
)

// TestFieldsExist: every name in the list is that of a field, and what lies in it is in the list
// or a value. Nothing in it makes Envoy fetch something, and numbers that cost memory are bounded.
func TestFieldsExist(t *testing.T) {
	for name, of := range fields {
		d, err := protoregistry.GlobalFiles.FindDescriptorByName(name)
		if err != nil {
			t.Error(err)
			continue
		}
		md := d.(protoreflect.MessageDescriptor)
		for field, r := range of {
			fd := md.Fields().ByName(field)
			switch {
			case fd == nil:
				t.Errorf("%s has no field %s", name, field)
			case r.in == 0:
				t.Errorf("%s.%s may be set nowhere", name, field)
			case fd.IsMap():
				t.Errorf("%s.%s is a map, which is not looked into", name, field)
			case fd.Kind() == protoreflect.BytesKind:
				t.Errorf("%s.%s is bytes, which are not looked into", name, field)
			case fd.Kind() == protoreflect.StringKind && r.bound == nil && name != "envoy.config.core.v3.SocketAddress" && field != "domains":
				t.Errorf("the text of %s.%s is not bounded", name, field)
			case fd.Kind() != protoreflect.MessageKind:
			case fd.Message().FullName() == anyName && r.bound == nil:
				t.Errorf("%s.%s holds anything", name, field)
			case fd.Message().FullName() == durationName && r.bound == nil:
				t.Errorf("the duration of %s.%s is not bounded", name, field)
			case fd.Message().FullName() != anyName && !simple(fd.Message()) && fields[fd.Message().FullName()] == nil:
				t.Errorf("%s.%s can be set and nothing in it", name, field)
			case strings.HasSuffix(string(fd.Message().FullName()), "ConfigSource"):
				t.Errorf("%s.%s makes Envoy fetch something", name, field)
			}
		}
	}
}

var durationName = (&durationpb.Duration{}).ProtoReflect().Descriptor().FullName()

// TestMerge: durations are replaced and not added up, lists get longer, and a patch is not changed
// by what comes after it.
func TestMerge(t *testing.T) {
	into := &clusterv3.Cluster{Name: "c", ConnectTimeout: durationpb.New(250 * time.Millisecond), CircuitBreakers: &clusterv3.CircuitBreakers{
		Thresholds: []*clusterv3.CircuitBreakers_Thresholds{{Priority: 1}},
	}}
	patch := &clusterv3.Cluster{ConnectTimeout: durationpb.New(5 * time.Second), CircuitBreakers: &clusterv3.CircuitBreakers{
		Thresholds: []*clusterv3.CircuitBreakers_Thresholds{{}},
	}}
	before := proto.Clone(patch)
	if err := merge(into.ProtoReflect(), proto.Clone(patch).ProtoReflect()); err != nil {
		t.Fatal(err)
	}
	if d := into.GetConnectTimeout().AsDuration(); d != 5*time.Second || into.GetName() != "c" || len(into.GetCircuitBreakers().GetThresholds()) != 2 {
		t.Errorf("merged: %v", into)
	}
	into.CircuitBreakers.Thresholds[1].Priority = 1
	if !proto.Equal(before, patch) {
		t.Error("the patch has changed")
	}
}

// FuzzTemplates: no text makes the parser panic, and what is accepted can be applied.
func FuzzTemplates(f *testing.F) {
	f.Add("cluster", "patch", "connect_timeout: 1s")
	f.Add("virtualHost", "add", `{"name":"a","domains":["a"],"routes":[{"match":{"prefix":"/"},"route":{"cluster":"c"}}]}`)
	f.Add("listener", "add", "a: &a [*a]")
	f.Fuzz(func(t *testing.T, kind, operation, value string) {
		c := &Conf{Resources: []Resource{{Name: "a", Version: "b", Resource: value}}}
		change := &Change{Operation: operation, Value: value, Match: &Match{Name: "x"}}
		switch sort(kind) {
		case sortCluster:
			c.Modifications = []Modification{{Cluster: change}}
		case sortListener:
			c.Modifications = []Modification{{Listener: change}}
		case sortNetworkFilter:
			c.Modifications = []Modification{{NetworkFilter: change}}
		case sortHTTPFilter:
			c.Modifications = []Modification{{HTTPFilter: change}}
		default:
			c.Modifications = []Modification{{VirtualHost: change}}
		}
		if len(validate(&Spec{Conf: c})) == 0 {
			if _, err := c.programOf(); err != nil {
				t.Errorf("what was accepted is not: %v", err)
			}
		}
	})
}
