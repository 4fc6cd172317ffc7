package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/meshgate/meshgate/controlplane/telemetry/telemetrytest"
)

// familyRow matches a row of the list of metrics.
var familyRow = regexp.MustCompile("(?m)^\\| `([a-z0-9_]+)` \\| (gauge|counter|histogram) \\|")

var operations = filepath.Join("..", "..", "..", "docs", "operations")

// promtool runs Prometheus' checker.
func promtool(t *testing.T, dir string, args ...string) {
	t.Helper()
	path, err := exec.LookPath("promtool")
	if err != nil {
		t.Fatal("promtool is missing: install it with 'apt-get install prometheus' (or your system's package)")
	}
	cmd := exec.Command(path, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// TestAlerts lets Prometheus check the rules and run their tests. Each alert has a test in
// which it fires, and one in which it does not.
func TestAlerts(t *testing.T) {
	promtool(t, operations, "check", "rules", "alerts.yaml")
	promtool(t, operations, "test", "rules", "alerts_test.yaml")
	tests, err := os.ReadFile(filepath.Join(operations, "alerts_test.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range alertRules(t) {
		for _, suffix := range []string{"fires", "does not"} {
			if !strings.Contains(string(tests), "name: "+r.Alert+" "+suffix+"\n") {
				t.Errorf("%s has no test that it %s", r.Alert, suffix)
			}
		}
		if r.Annotations["summary"] == "" || r.Annotations["description"] == "" || r.Labels["severity"] == "" {
			t.Errorf("%s does not say what to do", r.Alert)
		}
		expectDocumented(t, r.Alert, r.Expr)
	}
}

type alertRule struct {
	Alert, Expr         string
	Labels, Annotations map[string]string
}

func alertRules(t *testing.T) (out []alertRule) {
	t.Helper()
	var file struct{ Groups []struct{ Rules []alertRule } }
	text, err := os.ReadFile(filepath.Join(operations, "alerts.yaml"))
	if err == nil {
		err = yaml.Unmarshal(text, &file)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range file.Groups {
		out = append(out, g.Rules...)
	}
	return out
}

// dashboard holds the parts of a dashboard that these tests need.
type dashboard struct {
	UID, Title string
	Templating struct {
		List []struct{ Name, Type, Query string }
	}
	Panels []struct {
		ID         int
		Type       string
		Title      string
		Datasource struct{ UID string }
		Targets    []struct {
			Expr       string
			Datasource struct{ UID string }
		}
	}
}

// TestDashboards lets Prometheus check every expression of every dashboard. Every name in
// them must be documented, and no data source may be fixed.
func TestDashboards(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(operations, "dashboards", "*.json"))
	if err != nil || len(files) != 3 {
		t.Fatalf("%v %v", files, err)
	}
	var rules []map[string]string
	for _, file := range files {
		var d dashboard
		text, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(text, &d)
		}
		if err != nil {
			t.Fatal(file, err)
		}
		if l := d.Templating.List; d.UID == "" || len(l) != 1 || l[0].Name != "datasource" || l[0].Type != "datasource" || l[0].Query != "prometheus" {
			t.Errorf("%s lets nobody choose the source of data", file)
		}
		for _, p := range d.Panels {
			if p.Type != "row" && (len(p.Targets) == 0 || p.Datasource.UID != "$datasource") {
				t.Errorf("%s %q has no expression, or a fixed source", file, p.Title)
			}
			for _, target := range p.Targets {
				if target.Datasource.UID != "$datasource" {
					t.Errorf("%s %q has a fixed source", file, p.Title)
				}
				expr := strings.ReplaceAll(target.Expr, "$__rate_interval", "5m")
				expectDocumented(t, file+" "+p.Title, expr)
				rules = append(rules, map[string]string{"record": fmt.Sprintf("a:b%d", len(rules)), "expr": expr})
			}
		}
	}
	text, err := yaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": "dashboards", "rules": rules}}})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "expressions.yaml"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, dir, "check", "rules", "expressions.yaml")
}

// expectDocumented checks that every family in an expression is in
// docs/operations/metrics.md. Families of Envoy are compared with a real one in e2e/gateway.
func expectDocumented(t *testing.T, where, expr string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(operations, "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{"up": true, "process_cpu_seconds_total": true, "process_resident_memory_bytes": true}
	for _, row := range familyRow.FindAllStringSubmatch(string(text), -1) {
		known[row[1]] = row[2] != "histogram"
		if row[2] == "histogram" {
			known[row[1]+"_bucket"], known[row[1]+"_sum"], known[row[1]+"_count"] = true, true, true
		}
	}
	for _, name := range telemetrytest.Families(expr) {
		if !known[name] && !strings.HasPrefix(name, "envoy_") {
			t.Errorf("%s reads %s, which is not documented", where, name)
		}
	}
}
