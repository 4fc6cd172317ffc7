package notice

import (
	"errors"
	"testing"

	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
)

var quiet = model.Describe(struct{}{}, model.Kind{Name: "quiet", Class: model.Credential, Announce: model.AnnounceNone})

// TestListen: commits are told of, also those that announce nothing, and others are not.
func TestListen(t *testing.T) {
	s := New(memstore.New())
	defer func() { _ = s.Close() }()
	create := func(name string, err error) {
		t.Helper()
		_, got := s.Update(t.Context(), model.Credential, func(tx store.Tx) error {
			_, failed := tx.Create(&model.Resource{Kind: quiet, Name: name, Spec: &struct{}{}})
			return errors.Join(failed, err)
		})
		if (got == nil) != (err == nil) {
			t.Fatal(got)
		}
	}
	var told []string
	stop := s.Listen(func(c store.Commit) {
		for _, change := range c.Changes {
			told = append(told, change.New.Name)
		}
	})
	create("a", nil)
	create("b", errors.New("undone"))
	create("c", nil)
	stop()
	create("d", nil)
	if len(told) != 2 || told[0] != "a" || told[1] != "c" {
		t.Errorf("told of %v", told)
	}
}
