package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/controlplane/telemetry/telemetrytest"
)

// panelsTest evaluates the panels of nodes and conditions after ten minutes. A sidecar has
// been away for five minutes, all gateways are connected, and the disk of a control plane is
// full.
const panelsTest = `
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - {series: 'meshgate_nodes{instance="cp", type="sidecar", state="away"}', values: '1x60'}
      - {series: 'meshgate_nodes{instance="cp", type="gateway", state="connected"}', values: '2x60'}
      - {series: 'meshgate_node_away_since_timestamp_seconds{instance="cp", type="sidecar"}', values: '300x60'}
      - {series: 'meshgate_node_away_since_timestamp_seconds{instance="cp", type="gateway"}', values: '0x60'}
      - {series: 'meshgate_condition{instance="cp", condition="store", state="degraded"}', values: '1x60'}
      - {series: 'meshgate_condition{instance="cp", condition="store", state="ok"}', values: '0x60'}
      - {series: 'meshgate_condition{instance="cp", condition="clock", state="degraded"}', values: '0x60'}
      - {series: 'meshgate_condition{instance="cp", condition="clock", state="ok"}', values: '1x60'}
    promql_expr_test:
      - expr: NODES
        eval_time: 10m
        exp_samples: [{labels: '{type="gateway", state="connected"}', value: 2}, {labels: '{type="sidecar", state="away"}', value: 1}]
      - expr: AWAY
        eval_time: 10m
        exp_samples: [{labels: '{type="sidecar"}', value: 300}]
      - expr: MATTER
        eval_time: 10m
        exp_samples: [{labels: 'meshgate_condition{instance="cp", condition="store", state="degraded"}', value: 1}]
`

// TestPanelsOfNodesAndConditions lets Prometheus evaluate these panels. They must not show a
// connected node as away since 1970, or a good condition as a trouble.
func TestPanelsOfNodesAndConditions(t *testing.T) {
	all, err := telemetrytest.Expressions(operations)
	if err != nil {
		t.Fatal(err)
	}
	text := panelsTest
	for place, panel := range map[string]string{"NODES": "Nodes", "AWAY": "Away the longest", "MATTER": "What is the matter"} {
		found := ""
		for _, e := range all {
			if e.Where == "fleet.json "+panel {
				found = e.Expr
			}
		}
		if found == "" {
			t.Fatalf("there is no panel %q", panel)
		}
		text = strings.ReplaceAll(text, "expr: "+place+"\n", "expr: '"+found+"'\n")
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "panels.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, dir, "test", "rules", "panels.yaml")
}
