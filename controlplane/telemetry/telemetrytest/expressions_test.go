package telemetrytest

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestFamilies: if a family were overlooked, no test would look for it in a scrape.
func TestFamilies(t *testing.T) {
	for expr, want := range map[string]string{
		`up{job="meshgate-control-plane"} == 0 unless on (instance) (last_over_time(a_b[22h]) == 1 and on (instance) c_d == 1)`: "up a_b c_d",
		`histogram_quantile(0.99, sum by (le, instance) (rate(a_bucket{x!="y"}[$__rate_interval]))) > 10`:                       "a_bucket",
		`count(a_b == 0) or vector(0)`:                           "a_b",
		`min by (instance) (envoy_a or envoy_b) - time() < 1800`: "envoy_a envoy_b",
	} {
		if diff := cmp.Diff(want, strings.Join(Families(expr), " ")); diff != "" {
			t.Errorf("%s: %s", expr, diff)
		}
	}
}

// TestEveryExpressionNamesAFamily: every expression of the product names a family, and none
// hides one behind a matcher of names, where Families would not see it.
func TestEveryExpressionNamesAFamily(t *testing.T) {
	all, err := Expressions(filepath.Join("..", "..", "..", "docs", "operations"))
	if err != nil || len(all) < 100 {
		t.Fatal(len(all), err)
	}
	for _, e := range all {
		if len(Families(e.Expr)) == 0 || strings.Contains(e.Expr, "__name__") {
			t.Errorf("%s: %s", e.Where, e.Expr)
		}
	}
}
