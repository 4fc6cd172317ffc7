package storetest

import (
	"testing"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// testGuards checks resources that others name by texts. A text need not name anything. A
// resource that is named can neither be deleted nor lose its text.
func testGuards(t *testing.T, open Open) {
	s := one(t, open)
	create(t, s, res(Sign, "before", Item{Tags: []string{"L", "nobody"}}))
	create(t, s, res(Host, "h", Item{Label: "L"}), res(Host, "other", Item{Label: "M"}))
	named := store.StillReferenced{Key: model.Key{Kind: "host", Scope: "s", Name: "h"}, By: "sign", Name: "before", Field: "tags"}
	update := func(label string, n int) error {
		_, err := s.Update(bounded(t), model.Config, func(tx store.Tx) error {
			_, err := tx.Update(res(Host, "h", Item{Label: label, N: n}), 0)
			return err
		})
		return err
	}
	_, err := remove(bounded(t), s, Host, "h")
	wantSubject(t, err, fault.Referenced, named)
	wantSubject(t, update("X", 1), fault.Referenced, named)
	if err := update("L", 2); err != nil {
		t.Errorf("what keeps its label changes: %v", err)
	}
	if _, err := remove(bounded(t), s, Host, "other"); err != nil {
		t.Errorf("what nobody names: %v", err)
	}
	// Names in another scope do not count, and a sign that is deleted as well refuses
	// nothing.
	must(t, s, func(tx store.Tx) error {
		if _, err := tx.Create(&model.Resource{Kind: Host, Scope: "elsewhere", Name: "h", Spec: &Item{Label: "L"}}); err != nil {
			return err
		}
		if err := tx.Delete(Host, "elsewhere", "h", 0); err != nil {
			return err
		}
		_, err := tx.Update(res(Sign, "before", Item{Tags: []string{"h"}, Person: "h"}), 0)
		return err
	})
	if err := update("X", 3); err != nil {
		t.Errorf("a label that nobody names any more: %v", err)
	}
	if _, err := remove(bounded(t), s, Host, "h"); err != nil {
		t.Errorf("what is named by nothing but what goes with it: %v", err)
	}
	if get(t, s, Sign, "before") != nil {
		t.Error("the sign stayed")
	}
}
