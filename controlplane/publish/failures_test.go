package publish

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/xds/plan"
)

// TestFailuresAreReportedOnce: a failure is reported again only after it was gone, or with
// another reason.
func TestFailuresAreReportedOnce(t *testing.T) {
	bad, worse := errors.New("bad"), errors.New("worse")
	var before []plan.Failure
	for _, step := range []struct {
		name string
		now  []plan.Failure
		want []string
	}{
		{"two at once", []plan.Failure{{Cell: "route a", Err: bad}, {Cell: "route b", Err: bad}}, []string{"route a", "route b"}},
		{"the same", []plan.Failure{{Cell: "route b", Err: bad}, {Cell: "route a", Err: bad}}, nil},
		{"another reason", []plan.Failure{{Cell: "route a", Err: worse}}, []string{"route a"}},
		{"mended", nil, nil},
		{"back", []plan.Failure{{Cell: "route b", Err: bad}}, []string{"route b"}},
	} {
		var got []string
		for _, f := range unheardOf(before, step.now) {
			got = append(got, f.Cell)
		}
		if diff := cmp.Diff(step.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.name, diff)
		}
		before = step.now
	}
}
