package naming_test

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/meshgate/meshgate/xds/machine"
	"github.com/meshgate/meshgate/xds/naming"
	"github.com/meshgate/meshgate/xds/resource"
)

var compareAddr = cmp.Comparer(func(a, b netip.Addr) bool { return a == b })

// TestNamesArrive: what is encoded is admitted by the machine of a proxy with workloads, and
// decoded. A name never leads out of the proxy.
func TestNamesArrive(t *testing.T) {
	sent := naming.Table{"backend.mesh": netip.MustParseAddr("240.1.2.3"), "bank.example": netip.MustParseAddr("192.0.2.1")}
	body, err := proto.Marshal(naming.Encode(sent))
	if err != nil {
		t.Fatal(err)
	}
	own, err := machine.Bounds{Workloads: true}.Admit(string(resource.Cluster), body)
	if err != nil {
		t.Fatalf("the machine refuses the names: %v", err)
	}
	got, err := naming.Decode(own)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(naming.Table{"backend.mesh": sent["backend.mesh"]}, got, compareAddr); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	if _, err := naming.Decode([]byte{0xff}); err == nil {
		t.Error("what is no cluster has names")
	}
}
