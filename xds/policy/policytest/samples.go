package policytest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/meshgate/meshgate/controlplane/model"
)

// suffix ends the names of the inputs of golden files.
const suffix = ".in.yaml"

// Sample is a valid policy: the input of a golden file. The inputs of all folders are the one
// table of samples, from which tests of the whole mesh take policies of every kind. So each new
// field and each new combination that a folder tests is tried there, too.
type Sample struct {
	Kind *model.Kind
	// Name is that of the input, without its suffix. Text is the input.
	Name string
	Text []byte
	doc  map[string]any
}

// GoString says in reports of random tests which sample was drawn.
func (s Sample) GoString() string { return s.Kind.Document.Type + " " + s.Name }

// Services are those that samples are about: mostly calls from the first one to the second.
var Services = []string{"web", "backend", "jobs"}

var services = regexp.MustCompile(`\b(` + strings.Join(Services, "|") + `)\b`)

// Samples returns the samples of a kind, of which there is at least one. The folders of the
// policies are in a directory.
func Samples(t testing.TB, folders string, k *model.Kind) []Sample {
	t.Helper()
	inputs, err := filepath.Glob(filepath.Join(folders, strings.ToLower(k.Document.Type), "testdata", "*"+suffix))
	if err != nil || len(inputs) == 0 {
		t.Fatalf("%s has no samples below %s: %v", k.Document.Type, folders, err)
	}
	out := make([]Sample, len(inputs))
	for i, in := range inputs {
		text, err := os.ReadFile(in)
		if err != nil {
			t.Fatal(err)
		}
		Resource(t, k, text)
		out[i] = Sample{Kind: k, Name: strings.TrimSuffix(filepath.Base(in), suffix), Text: text}
		if err := yaml.Unmarshal(text, &out[i].doc); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// Spec makes a new spec from a sample, with other names of some of the [Services].
func (s Sample) Spec(names map[string]string) (any, error) {
	raw, err := json.Marshal(renamed(s.doc, names))
	if err != nil {
		return nil, err
	}
	_, spec, err := model.DecodeDocument(s.Kind, raw)
	if err != nil {
		return nil, err
	}
	s.Kind.Document.Default(spec)
	if vs := s.Kind.Document.Validate(spec); len(vs) > 0 {
		return nil, fmt.Errorf("%s %s: %v", s.Kind.Name, s.Name, vs)
	}
	return spec, nil
}

// renamed copies a document with other names of services. Names of members stay.
func renamed(node any, names map[string]string) any {
	switch n := node.(type) {
	case string:
		return services.ReplaceAllStringFunc(n, func(service string) string { return cmp.Or(names[service], service) })
	case []any:
		out := make([]any, len(n))
		for i := range n {
			out[i] = renamed(n[i], names)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(n))
		for key := range n {
			out[key] = renamed(n[key], names)
		}
		return out
	}
	return node
}
