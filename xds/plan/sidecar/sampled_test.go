package sidecar_test

import (
	"path/filepath"
	"reflect"
	"testing"

	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/xds/policy/all"
	"github.com/meshgate/meshgate/xds/policy/policytest"
)

// policies is the directory with the folders of the policies.
var policies = filepath.Join("..", "..", "policy")

// samplesOf returns the samples of every kind of policy.
func samplesOf(t testing.TB) map[*model.Kind][]policytest.Sample {
	t.Helper()
	out := map[*model.Kind][]policytest.Sample{}
	for _, k := range all.Kinds() {
		out[k] = policytest.Samples(t, policies, k)
	}
	return out
}

// sample stores a sample of a kind.
func (w *world) sample(k *model.Kind, name string) {
	w.t.Helper()
	for _, s := range policytest.Samples(w.t.(*testing.T), policies, k) {
		if s.Name == name {
			spec, err := s.Spec(nil)
			if err != nil {
				w.t.Fatalf("%v", err)
			}
			w.put(k, meshName, name, spec)
			return
		}
	}
	w.t.Fatalf("%s has no sample %q", k.Document.Type, name)
}

// sampled writes or deletes one of two policies of a kind. What is written is a sample, which
// mostly is about others than in its file.
func (d *driver) sampled(k *model.Kind) {
	name := pick(d, fewPolicies...)
	if pick(d, 0, 1, 2) == 0 {
		d.erase(k, name)
		return
	}
	s, names := pick(d, d.samples[k]...), map[string]string{}
	for _, service := range policytest.Services {
		names[service] = pick(d, fewServices...)
	}
	spec, err := s.Spec(names)
	if err == nil && d.yes() {
		if d.redirect(spec); len(k.Document.Validate(spec)) > 0 {
			spec, err = s.Spec(names)
		}
	}
	if err != nil {
		d.rt.Fatal(err)
	}
	d.put(k, meshName, name, spec)
}

// redirect makes a policy about other connections, or about another target, if it has either.
func (d *driver) redirect(spec any) {
	v := reflect.ValueOf(spec).Elem()
	if c := v.FieldByName("Connection"); c.IsValid() {
		c.Set(reflect.ValueOf(d.connection()))
	}
	if s := v.FieldByName("Spec"); s.IsValid() {
		s.Elem().FieldByName("TargetRef").Set(reflect.ValueOf(d.ref()))
	}
}
