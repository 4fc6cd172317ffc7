package assembly

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/meshgate/meshgate/controlplane/backup"
	"github.com/meshgate/meshgate/controlplane/telemetry"
	"github.com/meshgate/meshgate/controlplane/version"
	xds "github.com/meshgate/meshgate/xds/server"
)

var (
	// A description shows its name only in its text.
	familyName    = regexp.MustCompile(`fqName: "([a-z0-9_]+)"`)
	documentedRow = regexp.MustCompile("(?m)^\\| `([a-z0-9_]+)` \\| (gauge|counter|histogram) \\|")
)

func namesOf(cs []prometheus.Collector) []string {
	var out []string
	for _, c := range cs {
		descs := make(chan *prometheus.Desc)
		go func() {
			c.Describe(descs)
			close(descs)
		}()
		for d := range descs {
			out = append(out, familyName.FindStringSubmatch(d.String())[1])
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// TestEveryFamilyIsDocumented compares docs/operations/metrics.md with what a control plane
// and an agent register. Nothing may be missing or stale.
func TestEveryFamilyIsDocumented(t *testing.T) {
	r := startRunning(t, func(*running, *xds.Config) {})
	r.backups = &backup.Schedule{}
	registered := append(r.collectors(), telemetry.Node{Build: telemetry.BuildInfo("agent", version.Program), Conditions: r.ready.conditions.Collector(), Log: r.meters.log}.Collectors()...)
	registered = append(registered, telemetry.NewScrape(prometheus.NewRegistry(), nil, r.Log).Collectors()...)
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "operations", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	var documented []string
	for _, m := range documentedRow.FindAllStringSubmatch(string(text), -1) {
		documented = append(documented, m[1])
	}
	if slices.Sort(documented); len(slices.Compact(slices.Clone(documented))) != len(documented) {
		t.Error("a family is documented twice")
	}
	if diff := cmp.Diff(namesOf(registered), documented); diff != "" {
		t.Errorf("families (-registered +documented):\n%s", diff)
	}
}

// TestMetricsAreWellFormed gathers the metrics of a fresh control plane. Names and units must
// follow the conventions, and nothing may be registered twice.
func TestMetricsAreWellFormed(t *testing.T) {
	r := startRunning(t, func(*running, *xds.Config) {})
	families, err := r.metrics().Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		name := f.GetName()
		if strings.HasPrefix(name, "go_") || strings.HasPrefix(name, "process_") {
			continue
		}
		if counter := f.GetType().String() == "COUNTER"; counter != strings.HasSuffix(name, "_total") {
			t.Errorf("%s is a %s", name, f.GetType())
		}
		if histogram := f.GetType().String() == "HISTOGRAM"; histogram && !strings.HasSuffix(name, "_seconds") {
			t.Errorf("%s has no unit", name)
		}
		if f.GetHelp() == "" {
			t.Errorf("%s has no help", name)
		}
	}
}
