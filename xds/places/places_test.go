package places

import (
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// fill takes places until there are none. It returns their number and the reason for the end.
func fill(p *Places, owner func(i int) Owner) (n int, err error) {
	for err == nil {
		if err = p.Take(owner(n)); err == nil {
			n++
		}
	}
	return n, err
}

func TestQuotas(t *testing.T) {
	for name, tc := range map[string]struct {
		owner func(i int) Owner
		want  int
		err   error
	}{
		"a token":              {func(int) Owner { return Owner{"stolen", "m"} }, 10000, ErrToken},
		"tokens without ids":   {func(int) Owner { return Owner{"", "m"} }, 10000, ErrToken},
		"the tokens of mesh":   {func(i int) Owner { return Owner{fmt.Sprint(i), "m"} }, 15000, ErrMesh},
		"the tokens of many":   {func(i int) Owner { return Owner{fmt.Sprint(i), fmt.Sprint(i % 3)} }, 18000, ErrKept},
		"the same in 2 meshes": {func(i int) Owner { return Owner{"x", fmt.Sprint(i % 2)} }, 18000, ErrKept},
	} {
		t.Run(name, func(t *testing.T) {
			p := New(Limits{})
			if n, err := fill(p, tc.owner); n != tc.want || !errors.Is(err, tc.err) {
				t.Errorf("%d places, then %v", n, err)
			}
			if n, err := fill(p, func(int) Owner { return Owner{Token: "of a gateway"} }); n != 20000-tc.want || !errors.Is(err, ErrAll) {
				t.Errorf("%d are left to gateways, then %v", n, err)
			}
		})
	}
}

// TestFleet: proxies of one mesh that share a token all get their places, even two each while
// they are replaced.
func TestFleet(t *testing.T) {
	p := New(Limits{})
	for range 2 * 5000 {
		if err := p.Take(Owner{"shared", "m"}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestGivenBack: when all places are given back, no trace of their owners remains.
func TestGivenBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := New(Limits{All: 20})
		var have []Owner
		for _, o := range rapid.SliceOf(rapid.SampledFrom([]Owner{{"a", "m"}, {"b", "m"}, {"", "m"}, {"a", "n"}, {"g", ""}})).Draw(t, "owners") {
			if p.Take(o) == nil {
				have = append(have, o)
			}
		}
		for _, o := range have {
			p.Give(o)
		}
		if p.all != 0 || p.proxies != 0 || len(p.tokens)+len(p.meshes) != 0 {
			t.Fatalf("%+v is left", p)
		}
	})
}
