package revoke

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// known is a filter process that may read Redis, or several of which only that
// is remembered. Its name, and that of its row, is
//
//	instance@node   one process
//	@node           those of a node beyond the bound, of which each may be alive
//	@               those of any node, beyond the bound of all
//
// so that whoever makes instances up costs rows in bounded number, and nobody
// who may be alive is forgotten before its time.
type known struct {
	// seen is when it was last linked, of several that of the latest.
	seen time.Time
	// links counts those that are open or joining.
	links int
	// welcomed says that it was ever: what was not can hold nothing.
	welcomed bool
}

// others separates the instance from the node, and begins the name of several.
const others = "@"

// rememberEvery is how often filters that stay linked are noted anew.
const rememberEvery = time.Hour

func validInstance(s string) bool {
	return s != "" && len(s) <= maxInstance && !strings.Contains(s, others)
}

// called is the name of the filter at a link.
func (l *link) called() string { return l.hello.Instance + others + l.node.ID }

// meet returns the filter of a link, and makes room for one that is new. As many
// are known of a node as may be linked, so one of them is not. mu is held.
func (r *Revoker) meet(l *link) *known {
	name := l.called()
	if k := r.known[name]; k != nil {
		return k
	}
	if k := r.known[l.hello.Instance]; k != nil { // what an older release called it
		delete(r.known, l.hello.Instance)
		r.known[name] = k
		return k
	}
	several, count := others+l.node.ID, 0
	ofNode := func(name string) bool {
		instance, node, _ := strings.Cut(name, others)
		return instance != "" && node == l.node.ID
	}
	for name := range r.known {
		if ofNode(name) {
			count++
		}
	}
	if count >= r.o.MaxNodeLinks {
		r.merge(ofNode, several)
	}
	if len(r.known) >= 2*r.o.MaxLinks {
		r.merge(func(name string) bool { return name != others }, others)
	}
	k := &known{seen: r.o.Now()}
	r.known[name] = k
	return k
}

// merge remembers the one that was away the longest only as one of several, and
// so makes room once there are such. mu is held.
func (r *Revoker) merge(eligible func(name string) bool, several string) {
	oldest := ""
	for name, k := range r.known {
		if k.links == 0 && eligible(name) && (oldest == "" || k.seen.Before(r.known[oldest].seen)) {
			oldest = name
		}
	}
	if oldest == "" {
		return // the quotas of links bound them
	}
	all := cmp.Or(r.known[several], &known{welcomed: true})
	if seen := r.known[oldest].seen; seen.After(all.seen) {
		all.seen = seen
	}
	delete(r.known, oldest)
	r.known[several] = all
}

// drop forgets the filter of a link. mu is held.
func (r *Revoker) drop(l *link) {
	if name := l.called(); r.known[name] == l.known {
		delete(r.known, name)
	}
}

// remember persists which filters are known. It is woken by changes; a write
// that fails is repeated with the next.
func (r *Revoker) remember() {
	tick := time.NewTicker(rememberEvery)
	defer tick.Stop()
	for {
		all := false
		select {
		case <-r.ctx.Done():
			return
		case <-r.seen:
		case <-tick.C:
			all = true
		}
		if err := r.persistKnown(all); err != nil && r.ctx.Err() == nil {
			r.log.Error("known filters could not be persisted", "error", err)
		}
	}
}

// introduce returns when the filter of a link that has a place is in the store.
func (r *Revoker) introduce(l *link) error {
	r.persist.Lock()
	at, ok := r.written[l.called()]
	r.persist.Unlock()
	if ok && r.o.Now().Sub(time.UnixMilli(at)) < Remember/2 {
		return nil
	}
	if err := r.persistKnown(false); err != nil {
		return fmt.Errorf("remember the filter: %w", err)
	}
	return nil
}

// snapshotKnown forgets filters that were not seen for too long. Those that stay
// linked were seen now, if all are to be noted.
func (r *Revoker) snapshotKnown(all bool) map[string]int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.o.Now()
	out := make(map[string]int64, len(r.known))
	for name, k := range r.known {
		if k.links > 0 && (all || now.Sub(k.seen) > rememberEvery) {
			k.seen = now
		}
		if now.Sub(k.seen) > Remember {
			delete(r.known, name)
			continue
		}
		out[name] = k.seen.UnixMilli()
	}
	return out
}

// persistKnown writes how what is known differs from what was written.
func (r *Revoker) persistKnown(all bool) error {
	r.persist.Lock()
	defer r.persist.Unlock()
	now := r.snapshotKnown(all)
	var gone, fresh []string
	for name := range r.written {
		if _, ok := now[name]; !ok {
			gone = append(gone, name)
		}
	}
	for name, seen := range now {
		if written, ok := r.written[name]; !ok || written != seen {
			fresh = append(fresh, name)
		}
	}
	if len(gone)+len(fresh) == 0 {
		return nil
	}
	_, err := r.o.Store.Update(r.ctx, model.Credential, func(tx store.Tx) error {
		for _, name := range fresh {
			_, err := tx.Get(filters, "", name)
			if err := put(tx, &model.Resource{Kind: filters, Name: name, Spec: &Filter{Seen: now[name]}}, err); err != nil {
				return err
			}
		}
		for _, name := range gone {
			// One whose time was over may have gone by itself.
			if err := tx.Delete(filters, "", name, 0); err != nil && !fault.Is(err, fault.NotFound) {
				return err
			}
		}
		return nil
	})
	if err == nil {
		r.written = now
	}
	return err
}

// wakeSeen makes the owner persist the known filters.
func (r *Revoker) wakeSeen() {
	select {
	case r.seen <- struct{}{}:
	default: // it is awake
	}
}
