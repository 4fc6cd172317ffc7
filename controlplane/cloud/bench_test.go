package cloud_test

import (
	"testing"

	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
)

// BenchmarkWithoutGroups is what a control plane alone pays for groups that there could be: whoever
// issues or answers for a token asks what the control plane consists of, and in which groups it is.
func BenchmarkWithoutGroups(b *testing.B) {
	s := memstore.New()
	defer s.Close()
	var by cloud.Resolver
	if err := s.View(b.Context(), func(r store.Reader) error {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := by.Resolve(r, model.DefaultControlPlane); err != nil {
				return err
			}
			if _, err := by.Groups(r, model.DefaultControlPlane); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		b.Fatal(err)
	}
}
