package all

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/xds/policy/policytest"
)

// TestSamplesHaveEveryMember: the samples of each kind, from which tests of the whole mesh take
// their policies, have every member that its documents may have. A kind without samples fails, and
// so does a new member.
func TestSamplesHaveEveryMember(t *testing.T) {
	for _, k := range Kinds() {
		found := map[string]bool{}
		for _, s := range policytest.Samples(t, "..", k) {
			spec, err := s.Spec(nil)
			if err != nil {
				t.Fatal(err)
			}
			members(reflect.ValueOf(spec), found)
		}
		for _, name := range slices.Sorted(maps.Keys(found)) {
			if !found[name] && name != "healthcheck.Conf.eventLogPath" { // refused
				t.Errorf("no sample of %s has %s", k.Document.Type, name)
			}
		}
	}
}

// members notes the members that a value may have, by type and name, and those that it has.
func members(v reflect.Value, found map[string]bool) {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			v = reflect.New(v.Type().Elem())
		}
		members(v.Elem(), found)
	case reflect.Slice:
		members(reflect.Zero(v.Type().Elem()), found)
		for _, x := range v.Seq2() {
			members(x, found)
		}
	case reflect.Map:
		for _, x := range v.Seq2() {
			members(x, found)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.Type == reflect.TypeFor[model.Labelled]() {
				continue // labels have no effect on proxies
			} else if !f.Anonymous {
				name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
				name = v.Type().String() + "." + name
				found[name] = found[name] || !v.Field(i).IsZero()
			}
			members(v.Field(i), found)
		}
	}
}
