// Package cloudtest has what tests of the cloud API and of audit logs share.
package cloudtest

import (
	"context"
	"testing"

	"github.com/meshgate/meshgate/controlplane/audit"
	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/store"
)

// Events are the events of a portal, or of [cloud.ControlPlaneLog], that are stored, in order.
func Events(t testing.TB, s store.Store, portal string) (list []audit.Event) {
	t.Helper()
	err := s.View(context.WithoutCancel(t.Context()), func(r store.Reader) error {
		rows, err := r.List(cloud.Events, store.Query{Scope: portal})
		for _, row := range rows {
			list = append(list, row.Spec.(*cloud.Event).Event)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}
