package gatewayapi

import (
	"slices"
	"testing"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
)

// TestManyNameFilters: all of them count, and a row costs the same however many there are.
func TestManyNameFilters(t *testing.T) {
	row := &model.Resource{Kind: gateway.Services, Scope: model.DefaultControlPlane, Name: "x", Spec: &gateway.Service{Name: "alpha"}}
	for _, test := range []struct {
		equal, parts []string
		want         bool
	}{
		{[]string{"alpha"}, nil, true},
		{[]string{"alpha", "beta"}, nil, false},
		{nil, []string{"al", "ph"}, true},
		{nil, []string{"al", "x"}, false},
		{[]string{"alpha"}, []string{"x"}, false},
		{[]string{"alpha"}, []string{"", "pha"}, true},
	} {
		if got := selecting(nil, test.equal, test.parts)(row); got != test.want {
			t.Errorf("%+v: %t", test, got)
		}
	}
	cost := func(n int) float64 {
		keeps := selecting(nil, nil, append(slices.Repeat([]string{""}, n), "nowhere"))
		return testing.AllocsPerRun(20, func() {
			if keeps(row) {
				t.Error("it is kept")
			}
		})
	}
	if one, many := cost(0), cost(999); many > 2*one {
		t.Errorf("a row costs %.0f allocations with one filter, and %.0f with 1000", one, many)
	}
}
