package authz

import (
	"log/slog"
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
)

var (
	literal  = regexp.MustCompile(`LITERAL\("([a-z0-9_]+)"\), (true|false)`)
	fullName = regexp.MustCompile(`fqName: "` + prefix + `([a-z0-9_]+)"`)
)

// TestNamesAreThoseOfTheModule: dashboards and alerts read the figures of both under the same
// names.
func TestNamesAreThoseOfTheModule(t *testing.T) {
	source, err := os.ReadFile("../../filter/dynamicmodule/figures.c")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"allowed_total", "issued_total", "refused_total"}
	for _, m := range literal.FindAllSubmatch(source, -1) {
		want = append(want, string(m[1]))
	}
	s := New(slog.New(slog.DiscardHandler))
	descs := make(chan *prometheus.Desc, 100)
	s.Describe(descs)
	close(descs)
	var got []string
	for d := range descs {
		m := fullName.FindStringSubmatch(d.String())
		if m == nil {
			t.Fatalf("%s has another prefix", d)
		}
		got = append(got, m[1])
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" || len(want) < 10 {
		t.Errorf("names (-module +service):\n%s", diff)
	}
}

// TestClosedServiceHasNoFigures: a service may be registered before it is opened.
func TestClosedServiceHasNoFigures(t *testing.T) {
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(New(slog.New(slog.DiscardHandler)))
	if families, err := r.Gather(); err != nil || len(families) != 0 {
		t.Errorf("%v, %v", families, err)
	}
}
