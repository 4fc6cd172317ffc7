package inspect

import (
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	"google.golang.org/protobuf/proto"

	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/snapshot"
)

func TestRecord(t *testing.T) {
	body, err := proto.Marshal(&clusterv3.Cluster{Name: "backend"})
	if err != nil {
		t.Fatal(err)
	}
	set := resource.NewSet([]*resource.Resource{resource.New(resource.Cluster, "backend", body)}, map[string]string{"identity": "7"})
	out, err := Record(set, false, []snapshot.Rejection{{Type: resource.Cluster, Error: "no"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{
		SourceRecord, `"acknowledged": false`, `"name": "backend"`, `"@type"`, `"name": "identity"`, `"version": "7"`, "Cluster: no",
	} {
		if !strings.Contains(string(out), part) {
			t.Errorf("%s is missing in\n%s", part, out)
		}
	}
}

func TestRecordOfNothing(t *testing.T) {
	out, err := Record(nil, true, nil)
	if err != nil || !strings.Contains(string(out), `"configs"`) {
		t.Errorf("%s %v", out, err)
	}
}
