package logsink_test

import (
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/meshgate/meshgate/xds/logsink"
	"github.com/meshgate/meshgate/xds/machine"
	"github.com/meshgate/meshgate/xds/resource"
)

// TestSinksArrive: what is described is admitted by the machine of a proxy with workloads, and
// read.
func TestSinksArrive(t *testing.T) {
	file, tcp := logsink.Sink{File: "/logs/a.log"}, logsink.Sink{TCP: "192.0.2.1:5000"}
	var got logsink.Table
	for _, c := range []*clusterv3.Cluster{file.Describe(), tcp.Describe(), logsink.Source("192.0.2.7")} {
		if !logsink.Concerns(c.GetName()) {
			t.Errorf("%s concerns nobody", c.GetName())
		}
		body, err := proto.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		own, err := machine.Bounds{Workloads: true}.Admit(string(resource.Cluster), body)
		if err != nil {
			t.Fatalf("the machine refuses %s: %v", c.GetName(), err)
		}
		if err := got.Add(own); err != nil {
			t.Fatal(err)
		}
	}
	want := logsink.Table{Address: "192.0.2.7", Sinks: map[string]logsink.Sink{file.Name(): file, tcp.Name(): tcp}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
}

// TestOtherNames: a sink has no name but its own, and a service none of these.
func TestOtherNames(t *testing.T) {
	wrong, empty := logsink.Sink{File: "/logs/a.log"}.Describe(), logsink.Sink{File: "/logs/a.log"}.Describe()
	wrong.Name, empty.Metadata = logsink.Sink{File: "/logs/b.log"}.Name(), nil
	for _, c := range []*clusterv3.Cluster{wrong, empty} {
		body, err := proto.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		var got logsink.Table
		if err := got.Add(body); err == nil || len(got.Sinks) > 0 {
			t.Errorf("%s was taken: %v", c, got)
		}
	}
	if err := new(logsink.Table).Add([]byte{0xff}); err == nil {
		t.Error("what is no cluster describes a sink")
	}
	if logsink.Concerns("backend") || logsink.Is("@log-source") {
		t.Error("another cluster describes a sink")
	}
}
