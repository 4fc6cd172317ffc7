package policytest

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"sigs.k8s.io/yaml"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/e2e/golden"
	"github.com/meshgate/meshgate/xds/draft"
	"github.com/meshgate/meshgate/xds/policy"
)

// Protocols are the protocols with drafts.
var Protocols = []string{mesh.ProtocolHTTP, mesh.ProtocolGRPC, mesh.ProtocolTCP}

// Golden applies the resource in each testdata/<name>.in.yaml to the sample drafts of every
// protocol. It compares the changes, and the explanation, with testdata/<name>.golden.yaml;
// -update writes that file. The changed drafts must also freeze.
func Golden(t *testing.T, p *policy.Policy) {
	t.Helper()
	inputs, err := filepath.Glob("testdata/*" + suffix)
	if err != nil || len(inputs) == 0 {
		t.Fatalf("no inputs: %v", err)
	}
	for _, in := range inputs {
		t.Run(strings.TrimSuffix(filepath.Base(in), suffix), func(t *testing.T) {
			text, err := os.ReadFile(in)
			if err != nil {
				t.Fatal(err)
			}
			golden.Compare(t, strings.Replace(in, suffix, ".golden.yaml", 1), Render(t, p, Select(t, p, text)))
		})
	}
}

// Render returns as YAML what a selection changes in the drafts of each protocol, what it
// contributes, and its explanation.
func Render(t *testing.T, p *policy.Policy, s *policy.Selection) []byte {
	t.Helper()
	doc := map[string]any{"explain": p.Explain(s)}
	for _, protocol := range Protocols {
		d := NewDrafts(protocol, true)
		if err := errors.Join(d.Apply(p, s), d.Callers(p, s), d.Demand(p, s)); err != nil {
			t.Fatal(err)
		}
		frozen, err := d.Freeze()
		if err != nil {
			t.Error(err)
		}
		if p.Patch != nil {
			doc[protocol+" finished"] = finished(t, p, s, frozen)
		}
		before, after, changed := NewDrafts(protocol, true).parts(t), d.parts(t), map[string]json.RawMessage{}
		for name, body := range after {
			if !bytes.Equal(body, before[name]) {
				changed[name] = body
			}
		}
		if len(changed) > 0 {
			doc[protocol] = changed
		}
	}
	if added := contributed(t, p, s); len(added) > 0 {
		doc["contributed"] = added
	}
	out, err := yaml.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// parts returns every draft as compact JSON.
func (d *Drafts) parts(t *testing.T) map[string]json.RawMessage {
	t.Helper()
	out := map[string]json.RawMessage{
		"cluster": body(t, d.Cluster.Proto), "clusterHTTP": body(t, d.Cluster.HTTP),
		"outbound": body(t, d.Outbound.Proto),
	}
	if d.Outbound.HTTP != nil {
		out["outboundHTTP"], out["inboundHTTP"] = body(t, d.Outbound.HTTP), body(t, d.Inbound.HTTP)
		out["outboundRoutes"], out["inboundRoutes"] = body(t, d.OutboundRoutes.Proto), body(t, d.InboundRoutes.Proto)
	} else {
		out["outboundTCP"], out["inboundTCP"] = body(t, d.Outbound.TCP), body(t, d.Inbound.TCP)
	}
	list(t, out, "outboundFilters", d.Outbound.Filters.Filters())
	list(t, out, "inboundFilters", d.Inbound.Filters.Filters())
	list(t, out, "inboundAuthenticatedFilters", d.Inbound.AuthenticatedFilters.Filters())
	list(t, out, "inboundAuthenticatedNetwork", d.Inbound.AuthenticatedNetwork)
	list(t, out, "inboundPeers", d.Inbound.Peers)
	if d.Split != nil {
		out["split"] = marshal(t, splitView(t, d.Split))
	}
	return out
}

func splitView(t *testing.T, s *draft.Split) map[string]any {
	t.Helper()
	var rules []any
	for _, r := range s.Rules {
		rules = append(rules, map[string]any{
			"match": body(t, r.Match), "action": body(t, r.Action), "headers": body(t, r.Headers), "to": r.To,
		})
	}
	out := map[string]any{"rules": rules, "otherwise": s.Otherwise}
	if s.HashSource {
		out["hashSource"] = true
	}
	var hash []any
	for _, h := range s.Hash {
		hash = append(hash, body(t, h))
	}
	if hash != nil {
		out["hash"] = hash
	}
	return out
}

func list[M proto.Message](t *testing.T, out map[string]json.RawMessage, name string, ms []M) {
	t.Helper()
	var bodies []json.RawMessage
	for _, m := range ms {
		bodies = append(bodies, body(t, m))
	}
	if bodies != nil {
		out[name] = marshal(t, bodies)
	}
}

// body returns a message as JSON without the random spaces of its encoder.
func body(t *testing.T, m proto.Message) json.RawMessage {
	t.Helper()
	text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := json.Compact(&out, text); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func marshal(t *testing.T, v any) json.RawMessage {
	t.Helper()
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
