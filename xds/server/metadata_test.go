package server

import (
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/structpb"
)

func TestVersionsAreFlattenedAndBounded(t *testing.T) {
	many := map[string]any{}
	for i := range 100 {
		many["k"+strconv.Itoa(i)] = "v"
	}
	for name, tc := range map[string]struct {
		in   any
		want map[string]string
		n    int
	}{
		"nested": {map[string]any{"envoy": map[string]any{"version": "1.39.3", "n": 2.0, "odd": []any{1.0}}},
			map[string]string{"version.envoy.version": "1.39.3", "version.envoy.n": "2"}, 2},
		"text":  {"1", map[string]string{}, 0},
		"large": {map[string]any{"x": strings.Repeat("y", maxMetadataBytes)}, map[string]string{}, 0},
		"many":  {many, nil, maxMetadata},
	} {
		v, err := structpb.NewValue(tc.in)
		if err != nil {
			t.Fatal(err)
		}
		got := versions(&structpb.Struct{Fields: map[string]*structpb.Value{"version": v}})
		if len(got) != tc.n || tc.want != nil && !cmp.Equal(got, tc.want) {
			t.Errorf("%s: %v", name, got)
		}
	}
	if versions(nil) != nil || versions(&structpb.Struct{}) != nil {
		t.Error("versions of nothing")
	}
}
