package inspect

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/insight"
	"github.com/meshgate/meshgate/controlplane/nodes"
	"github.com/meshgate/meshgate/xds/resource"
)

// password is concealed: a TCP health check may send one.
const password = "68756e746572"

// namedCluster is a cluster with a health check that sends a text.
func namedCluster(tb testing.TB, name, alt, send string) *resource.Resource {
	tb.Helper()
	c := &clusterv3.Cluster{Name: name, AltStatName: alt}
	if send != "" {
		c.HealthChecks = []*corev3.HealthCheck{{HealthChecker: &corev3.HealthCheck_TcpHealthCheck_{TcpHealthCheck: &corev3.HealthCheck_TcpHealthCheck{
			Send: &corev3.HealthCheck_Payload{Payload: &corev3.HealthCheck_Payload_Text{Text: send}},
		}}}}
	}
	text, err := proto.Marshal(c)
	if err != nil {
		tb.Fatal(err)
	}
	return resource.New(resource.Cluster, name, text)
}

// compareRig is Dumps of a node with three configurations.
func compareRig(desired, sent, answered *resource.Set, failed error, refused ...insight.Rejected) *Dumps {
	return NewDumps(DumpOptions{
		Last:    func(string) (*resource.Set, *resource.Set) { return sent, answered },
		Desired: func(context.Context, string) (*resource.Set, error) { return desired, failed },
		Node: func(name string) (nodes.Node, error) {
			if name == "m.none" {
				return nodes.Node{}, fault.New(fault.NotFound, "unknown")
			}
			return nodes.Node{Name: name, State: insight.Away, Rejected: refused}, nil
		},
	})
}

func comparisonOf(t *testing.T, d *Dumps, diff bool) (doc nodes.Comparison) {
	t.Helper()
	if err := d.Compare(t.Context(), "m.a", diff, func(text []byte) {
		if strings.Contains(string(text), password) {
			t.Errorf("it shows what is concealed: %s", text)
		}
		if err := json.Unmarshal(text, &doc); err != nil {
			t.Error(err)
		}
	}); err != nil {
		t.Fatal(err)
	}
	return doc
}

// TestCompare: each resource has its three versions, what became of it, and what differs,
// without what is concealed.
func TestCompare(t *testing.T) {
	same := namedCluster(t, "same", "", password)
	set := func(generation string, rs ...*resource.Resource) *resource.Set {
		return resource.NewSet(append(rs, same), map[string]string{"identity": generation})
	}
	d := compareRig(
		set("2", namedCluster(t, "bad", "2", ""), namedCluster(t, "new", "", password), namedCluster(t, "changed", "2", ""), namedCluster(t, "behind", "3", ""), namedCluster(t, "check", "", password+"2")),
		set("2", namedCluster(t, "bad", "2", ""), namedCluster(t, "new", "", password), namedCluster(t, "changed", "2", ""), namedCluster(t, "behind", "2", ""), namedCluster(t, "check", "", password+"2")),
		set("1", namedCluster(t, "bad", "2", ""), namedCluster(t, "changed", "1", ""), namedCluster(t, "behind", "2", ""), namedCluster(t, "gone", "", ""), namedCluster(t, "check", "", password)),
		nil, insight.Rejected{Type: "Cluster", Resources: []string{"bad"}, Error: "no"})
	got := map[string]string{}
	doc := comparisonOf(t, d, true)
	for _, r := range doc.Resources {
		text := r.State
		for _, e := range r.Diff {
			text += " " + e.Op + " " + e.Path
			if e.Op == "replace" {
				text += " " + string(e.Value)
			}
		}
		got[r.Name] = fmt.Sprint(text, " ", r.Error, r.Desired != "", r.Sent != "", r.Acknowledged != "")
	}
	if d := cmp.Diff(map[string]string{
		"same": "acknowledged true true true", "bad": "rejected add  notrue true false", "new": "sent add  true true false",
		"changed": `sent replace /altStatName "2" true true true`, "behind": `due replace /altStatName "3" true true true`, "gone": "sent remove  false false true",
		"check": "sent true true true", "identity": `sent replace /generation "2" true true true`,
	}, got); d != "" {
		t.Errorf("resources (-want +got):\n%s", d)
	}
	if doc.Acknowledged || doc.State != insight.Away || doc.Problem != "" {
		t.Errorf("%+v", doc)
	}
	for _, r := range comparisonOf(t, d, false).Resources {
		if r.Diff != nil {
			t.Errorf("%s has a difference that nobody asked for", r.Name)
		}
	}
}

// TestCompareOfAllAcknowledged: only a node that has everything that it should have, and this
// is known, has acknowledged all.
func TestCompareOfAllAcknowledged(t *testing.T) {
	set := resource.NewSet([]*resource.Resource{namedCluster(t, "a", "", "")}, map[string]string{"identity": "1"})
	for name, c := range map[string]struct {
		dumps *Dumps
		want  string
	}{
		"all":                {compareRig(set, set, set, nil), "true "},
		"nothing, ever":      {compareRig(nil, nil, nil, nil), "false "},
		"nothing sent":       {compareRig(set, nil, nil, nil), "false "},
		"refused":            {compareRig(set, set, set, nil, insight.Rejected{Type: "Secret", Error: "no"}), "false "},
		"nobody can tell":    {compareRig(nil, set, set, fault.New(fault.Unavailable, "no plan")), "false no plan"},
		"removed by desired": {compareRig(nil, set, set, nil), "false "},
	} {
		doc := comparisonOf(t, c.dumps, false)
		if got := fmt.Sprint(doc.Acknowledged, " ", doc.Problem); got != c.want || doc.Resources == nil {
			t.Errorf("%s: %s, %+v", name, got, doc.Resources)
		}
	}
	if err := compareRig(set, set, set, nil).Compare(t.Context(), "m.none", false, nil); !fault.Is(err, fault.NotFound) {
		t.Errorf("an unknown node: %v", err)
	}
}

// TestConfiguration: every answer has all types, and a difference only if it was asked for.
func TestConfiguration(t *testing.T) {
	old := resource.NewSet([]*resource.Resource{namedCluster(t, "a", "1", password), namedCluster(t, "bad", "", "")}, map[string]string{"identity": "1"})
	desired := resource.NewSet([]*resource.Resource{namedCluster(t, "a", "2", password)}, map[string]string{"identity": "1"})
	bad := insight.Rejected{Type: "Cluster", Resources: []string{"bad"}, Error: "no"}
	for name, c := range map[string]struct {
		dumps        *Dumps
		shadow, diff bool
		names, edits string
	}{
		"acknowledged":           {compareRig(desired, old, old, nil, bad), false, false, "[a]", "none"},
		"acknowledged, and diff": {compareRig(desired, old, old, nil, bad), false, true, "[a]", "[]"},
		"desired":                {compareRig(desired, old, old, nil, bad), true, false, "[a]", "none"},
		"desired, and diff": {
			compareRig(desired, old, old, nil, bad), true, true, "[a]",
			`[replace /type.googleapis.com~1envoy.config.cluster.v3.Cluster/a/altStatName]`,
		},
		"never there": {compareRig(desired, nil, nil, nil), false, false, "[]", "none"},
		"never there, and diff": {
			compareRig(desired, nil, nil, nil), true, true, "[a]",
			`[add /type.googleapis.com~1envoy.config.cluster.v3.Cluster/a add /type.googleapis.com~1envoy.extensions.transport_sockets.tls.v3.Secret/identity]`,
		},
	} {
		var doc configuration
		if err := c.dumps.Configuration(t.Context(), "m.a", c.shadow, c.diff, func(text []byte) {
			if strings.Contains(string(text), password) {
				t.Errorf("%s: it shows what is concealed: %s", name, text)
			}
			if err := json.Unmarshal(text, &doc); err != nil {
				t.Error(err)
			}
		}); err != nil {
			t.Fatal(err)
		}
		var names, edits []string
		for n := range doc.XDS[string(resource.Cluster)] {
			names = append(names, n)
		}
		said := "none"
		if doc.Diff != nil {
			for _, e := range *doc.Diff {
				edits = append(edits, e.Op+" "+e.Path)
			}
			said = fmt.Sprint(edits)
		}
		if fmt.Sprint(names) != c.names || said != c.edits || len(doc.XDS) != len(resource.Types) {
			t.Errorf("%s: %v %s, %d types", name, names, said, len(doc.XDS))
		}
	}
}
