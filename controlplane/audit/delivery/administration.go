package delivery

import (
	"github.com/meshgate/meshgate/controlplane/audit"
	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// Keeps reports whether events of the control plane itself are kept now.
func Keeps(r store.Reader) (bool, error) {
	to, err := takersOf(r, cloud.ControlPlaneLog)
	return to.any(), err
}

// PutAdministration adds what has happened to the control plane itself to the outbox, as [Put] does, in
// the transaction of that. If the transaction switches the log off, its events are the last ones, and go
// out nevertheless: who switches it off does not do it unseen. describe makes the events; it is not
// called if nobody gets them.
func PutAdministration(tx store.Tx, describe func() ([]audit.Event, error)) error {
	to, err := takersOf(tx, cloud.ControlPlaneLog)
	if err != nil {
		return err
	}
	over := false
	if to.hook == nil {
		to.hook = switchedOff(tx)
		over = to.hook != nil
	}
	if !to.any() {
		return nil
	}
	events, err := describe()
	if err != nil {
		return err
	}
	last := ""
	for i := range events {
		events[i].Portal = cloud.ControlPlaneLog
		if last, err = to.put(tx, events[i]); err != nil {
			return err
		}
	}
	if !over || last == "" {
		return nil
	}
	progress, version, err := progressIn(tx, cloud.ControlPlaneLog)
	if err != nil {
		return err
	}
	next := *progress
	next.Final = last
	_, err = tx.Update(&model.Resource{Kind: cloud.Deliveries, Name: cloud.ControlPlaneLog, Spec: &next}, version)
	return err
}

// switchedOff is the webhook of the control plane's log if a transaction switches it off; nil if not. One that
// could not be read counts as one that was on.
func switchedOff(tx store.Tx) (hook *cloud.Webhook) {
	was := false
	for _, c := range tx.Changes() {
		if c.Old != nil && c.Old.Kind == cloud.Webhooks && c.Old.Name == cloud.ControlPlaneLog {
			old, read := c.Old.Spec.(*cloud.Webhook)
			was = was || !read || old.Enabled
		}
		if c.New != nil && c.New.Kind == cloud.Webhooks && c.New.Name == cloud.ControlPlaneLog {
			hook = c.New.Spec.(*cloud.Webhook)
		}
	}
	if !was || hook == nil || hook.Enabled || hook.Destination == "" {
		return nil
	}
	return hook
}

// passOver notes that the n-th event of the control plane's log is for sinks only: the webhook, which is
// off, gets none of those that come before it is on again. While it has not got its last one, fill passes
// them over.
func passOver(tx store.Tx, n uint64) error {
	progress, version, err := progressIn(tx, cloud.ControlPlaneLog)
	if err != nil || version == 0 || progress.Cursor < progress.Final {
		return err
	}
	next := *progress
	next.Cursor = cloud.EventName(cloud.ControlPlaneLog, n)
	_, err = tx.Update(&model.Resource{Kind: cloud.Deliveries, Name: cloud.ControlPlaneLog, Spec: &next}, version)
	return err
}
