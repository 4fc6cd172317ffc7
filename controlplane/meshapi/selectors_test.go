package meshapi

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/meshgate/meshgate/controlplane/census"
	"github.com/meshgate/meshgate/controlplane/mesh"
)

// TestSelectorsAgainstOracle: an index of selectors matches what any of them matches.
func TestSelectorsAgainstOracle(t *testing.T) {
	of := func(values ...string) *rapid.Generator[map[string]string] {
		keys := rapid.SampledFrom([]string{mesh.TagService, "team", "version"})
		return rapid.MapOfN(keys, rapid.SampledFrom(values), 0, 3)
	}
	rapid.Check(t, func(t *rapid.T) {
		selectors := rapid.SliceOfN(of("a", "b", mesh.AnyValue), 0, 5).Draw(t, "selectors")
		tags := mesh.Tags(of("a", "b", "c").Draw(t, "tags"))
		want := slices.ContainsFunc(selectors, func(s map[string]string) bool { return mesh.Matches(s, tags) })
		if got := indexed(selectors).match(tags); got != want {
			t.Fatalf("%v matches one of %v: %v", tags, selectors, got)
		}
	})
}

// TestFewSelectorsAreCompared: of very many selectors, few are compared with a tag set.
func TestFewSelectorsAreCompared(t *testing.T) {
	var selectors []map[string]string
	for i := range 10_000 {
		selectors = append(selectors, map[string]string{mesh.TagService: "web", "i": fmt.Sprint(i), "half": fmt.Sprint(i / 5000)})
	}
	for tag, of := range indexed(slices.Concat(selectors, selectors)).by {
		if len(of) > 1 {
			t.Errorf("%d selectors with %v", len(of), tag)
		}
	}
}

// leaving is a directory whose client leaves when the first dataplane is judged.
type leaving struct {
	leave func()
}

func (d *leaving) Find(_ context.Context, s census.Search) (*census.Found, error) {
	traits := func() *census.Traits { return &census.Traits{Tags: []mesh.Tags{{mesh.TagService: "s1"}}} }
	s.Accepts(traits())
	d.leave()
	for range 10 {
		s.Accepts(traits())
	}
	return &census.Found{}, nil
}

// TestNobodyJudgesForAClientThatHasLeft: nothing is judged or read any more.
func TestNobodyJudgesForAClientThatHasLeft(t *testing.T) {
	a := newAPI(t)
	fill(t, a.store, 3)
	ctx, leave := context.WithCancel(t.Context())
	a.options.Directory = &leaving{leave: leave}
	c, judged := collection{&API{Options: a.options}, mesh.Dataplanes}, 0
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/dataplanes", nil)
	_, _, err := c.findListed(r, r.URL.Query(), nil, func(facts) bool { judged++; return true }, false, window{size: 10})
	if err == nil || judged != 1 {
		t.Errorf("%d are judged: %v", judged, err)
	}
}
