package assembly

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/xds/resource"
)

func TestRenewedCertificatesArePushedOnce(t *testing.T) {
	bodies := map[string]string{"a certificate": "1", "a roots": "r", "b certificate": "1"}
	nodes := []string{"a", "b"}
	var pushed []string
	broken := ""
	r := &renewer{
		nodes: func() []string { return nodes },
		secrets: func(node string) []string {
			if node == "a" {
				return []string{"certificate", "roots"}
			}
			return []string{"certificate"}
		},
		secret: func(_ context.Context, node, name, _ string) (*resource.Resource, error) {
			if node == broken {
				return nil, errors.New("no entropy")
			}
			return resource.New(resource.Secret, name, []byte(bodies[node+" "+name])), nil
		},
		generation: func(node, _ string) string { return node },
		push: func(node, generation string, r *resource.Resource) {
			pushed = append(pushed, generation+" "+r.Name+"="+string(r.Body))
		},
		log: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
	for _, step := range []struct {
		name string
		do   func()
		want []string
	}{
		{"first sight", func() {}, []string{"a certificate=1", "a roots=r", "b certificate=1"}},
		{"nothing new", func() {}, nil},
		{"one renewed", func() { bodies["b certificate"] = "2" }, []string{"b certificate=2"}},
		{"a failure hinders nobody", func() { broken, bodies["b certificate"] = "a", "3" }, []string{"b certificate=3"}},
		{"and changes nothing", func() { broken = "" }, nil},
		{"a proxy left", func() { nodes = []string{"b"} }, nil},
		{"and is back", func() { nodes = []string{"a", "b"} }, []string{"a certificate=1", "a roots=r"}},
	} {
		pushed = nil
		step.do()
		r.round(t.Context())
		if diff := cmp.Diff(step.want, pushed); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.name, diff)
		}
	}
}
