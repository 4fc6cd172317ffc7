package inspect

import (
	"encoding/json"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/meshgate/meshgate/controlplane/insight"
	"github.com/meshgate/meshgate/xds/resource"
)

// TestRecord: each entry tells what is known about its own resource.
func TestRecord(t *testing.T) {
	cluster := func(name, body string) *resource.Resource {
		text, err := proto.Marshal(&clusterv3.Cluster{Name: name, AltStatName: body})
		if err != nil {
			t.Fatal(err)
		}
		return resource.New(resource.Cluster, name, text)
	}
	known := Known{
		Set: resource.NewSet([]*resource.Resource{cluster("backend", ""), cluster("new", ""), cluster("changed", "b"), cluster("bad", "")},
			map[string]string{"identity": "7", "roots": "2"}),
		Answered: resource.NewSet([]*resource.Resource{cluster("backend", ""), cluster("changed", "a"), cluster("bad", "")}, map[string]string{"identity": "7", "roots": "1"}),
		Refused:  []insight.Rejected{{Type: "Cluster", Resources: []string{"bad"}, Error: "no"}, {Type: "Secret", Resources: []string{"backend"}, Error: "other"}},
	}
	text, err := Record(SourceAway, known)
	if err != nil {
		t.Fatal(err)
	}
	var got record
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	states := map[string]string{}
	for _, c := range got.Configs {
		for _, r := range c.Resources {
			states[r.Name] = strings.TrimSpace(r.State + " " + r.Error)
			if secret := c.Type == string(resource.Secret); secret != (r.Config == nil) {
				t.Errorf("%s: %s", r.Name, r.Config)
			}
		}
	}
	want := map[string]string{"backend": Acknowledged, "new": Sent, "changed": Sent, "bad": Rejected + " no", "identity": Acknowledged, "roots": Sent}
	if d := cmp.Diff(want, states); d != "" {
		t.Errorf("states (-want +got):\n%s", d)
	}
	if got.Source != SourceAway || got.Acknowledged || len(got.Rejected) != 2 || got.Configs[0].Type != string(resource.Cluster) {
		t.Errorf("%+v", got)
	}
}

// TestRecordOfAllAcknowledged: a refusal is an answer but no confirmation.
func TestRecordOfAllAcknowledged(t *testing.T) {
	set := resource.NewSet(nil, map[string]string{"identity": "7"})
	for name, c := range map[string]struct {
		known Known
		want  string
	}{
		"nothing is known": {Known{}, `"acknowledged": false`},
		"everything":       {Known{Set: set, Answered: set}, `"acknowledged": true`},
		"refused":          {Known{Set: set, Answered: set, Refused: []insight.Rejected{{Type: "Secret", Error: "no"}}}, `"acknowledged": false`},
		"not answered":     {Known{Set: set}, `"acknowledged": false`},
	} {
		out, err := Record(SourceAsked, c.known)
		if err != nil || !strings.Contains(string(out), c.want) || !strings.Contains(string(out), `"configs"`) {
			t.Errorf("%s: %s %v", name, out, err)
		}
	}
}
