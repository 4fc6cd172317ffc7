// Package addresses gives the host names of meshes their addresses, by which transparent proxies
// know them, and stores these. A name keeps its address as long as it exists, whatever else comes,
// goes or is renamed, and whoever is restarted: clients keep addresses longer than resolvers say.
//
// An address follows from the name, or is the next one that is free. It is chosen in the
// transaction that stores it, in which the store itself refuses an address that another name of
// the mesh has. So any number of control planes on one store agree, and one that dies leaves
// nothing half done.
package addresses

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/selection"
)

// The addresses of names that nothing has any more are kept as long as a mesh has at most
// maxUnused of them. If there are more, those go that nothing has had for unusedLife. Nobody
// caches an address that long, and a service that comes back sooner has its own.
const (
	maxUnused  = 1024
	unusedLife = 24 * time.Hour
)

// Bounds of the pause after the store failed.
const (
	firstRetry = time.Second
	lastRetry  = time.Minute
)

// Writer writes transactions of the keeper. [admit.Gate] implements it.
type Writer interface {
	Write(ctx context.Context, class model.Class, fn func(store.Tx) error) (store.Commit, error)
}

// Keeper stores addresses for the names of the meshes that it is shown.
type Keeper struct {
	writer Writer
	now    func() time.Time
	log    *slog.Logger
	wake   chan struct{}

	mu sync.Mutex
	// shown are the states that were not looked at, by mesh.
	shown map[string]*view.Mesh

	// done are the states for which everything is stored, by mesh. Only Run uses it.
	done map[string]*view.Mesh
}

// New returns a keeper. Run does the work.
func New(w Writer, now func() time.Time, log *slog.Logger) *Keeper {
	return &Keeper{writer: w, now: now, log: log, wake: make(chan struct{}, 1), shown: map[string]*view.Mesh{}, done: map[string]*view.Mesh{}}
}

// Show takes a newer state of a mesh. It does not block.
func (k *Keeper) Show(m *view.Mesh) {
	k.mu.Lock()
	k.shown[m.Name()] = m
	k.mu.Unlock()
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// Run stores what is missing until ctx ends, and returns the error of ctx. It tries again what
// failed.
func (k *Keeper) Run(ctx context.Context) error {
	again := time.NewTimer(0)
	defer again.Stop()
	pause := firstRetry
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-k.wake:
		case <-again.C:
		}
		if k.round(ctx) {
			pause = firstRetry
			continue
		}
		again.Reset(pause)
		pause = min(2*pause, lastRetry)
	}
}

// round looks at what was shown, and reports whether nothing failed. What failed counts as shown
// unless something newer was.
func (k *Keeper) round(ctx context.Context) (good bool) {
	k.mu.Lock()
	shown := k.shown
	k.shown = map[string]*view.Mesh{}
	k.mu.Unlock()
	good = true
	for _, name := range slices.Sorted(maps.Keys(shown)) {
		m := shown[name]
		if m.Spec() == nil {
			delete(k.done, name)
			continue
		}
		if was := k.done[name]; was != nil && was.SameHosts(m) {
			continue
		}
		err := k.Keep(ctx, m)
		switch {
		case err == nil:
			k.done[name] = m
		case ctx.Err() != nil:
		default:
			good = false
			k.log.Error("addresses of a mesh could not be stored; its new names have none yet", "mesh", name, "error", err.Error())
			k.mu.Lock()
			if k.shown[name] == nil {
				k.shown[name] = m
			}
			k.mu.Unlock()
		}
	}
	return good
}

// work is what is to be written for a state.
type work struct {
	// missing are names without an address, in the order in which they get one.
	missing []string
	// used are names that are marked as unused, unused those that are not, and over those that
	// have been long enough.
	used, unused, over []string
	// unsettled are names whose holders change, leads says what leads to what.
	unsettled []string
	leads     named
}

func (w *work) empty() bool {
	return len(w.missing)+len(w.used)+len(w.unused)+len(w.over)+len(w.unsettled) == 0
}

// due finds what is to be written for a state.
func (k *Keeper) due(m *view.Mesh) (w work) {
	names := selection.NamesOf(m)
	w.leads = namedBy(names.Named)
	wanted := map[string]bool{}
	for _, host := range names.Hosts() {
		wanted[host] = true
		if _, ok := m.Address(host); !ok {
			w.missing = append(w.missing, host)
			continue
		}
		if leads := w.leads[host]; len(leads) > 0 {
			if _, changed := held(m.Holders(host), leads, k.now()); changed {
				w.unsettled = append(w.unsettled, host)
			}
		}
	}
	// Only this many can be in excess.
	excess := m.Addressed() > len(wanted)-len(w.missing)+maxUnused
	for host, a := range m.Addresses() {
		switch {
		case wanted[host]:
			if !a.Spec.Unused.IsZero() {
				w.used = append(w.used, host)
			}
		case !excess:
		case a.Spec.Unused.IsZero():
			w.unused = append(w.unused, host)
		case k.now().Sub(a.Spec.Unused) > unusedLife:
			w.over = append(w.over, host)
		}
	}
	return w
}

// errGone rolls back the transaction for a mesh that was deleted.
var errGone = errors.New("the mesh is gone")

// Keep stores what is missing in a state, in one transaction, and writes nothing if nothing is.
func (k *Keeper) Keep(ctx context.Context, m *view.Mesh) error {
	w := k.due(m)
	if w.empty() {
		return nil
	}
	// Holders of proxy tokens make names come and go, so the change records count against the
	// limit for proxies.
	_, err := k.writer.Write(model.WithOrigin(ctx, model.OriginProxy), model.Config, func(tx store.Tx) error {
		if _, err := tx.Get(mesh.Meshes, "", m.Name()); err != nil {
			if fault.Is(err, fault.NotFound) {
				return errGone
			}
			return err
		}
		return k.write(tx, m.Name(), &w)
	})
	if errors.Is(err, errGone) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("store addresses of mesh %s: %w", m.Name(), err)
	}
	return nil
}

func (k *Keeper) write(tx store.Tx, meshName string, w *work) error {
	for _, host := range w.missing {
		if err := k.create(tx, meshName, host, w.leads[host]); err != nil {
			return err
		}
	}
	for _, host := range w.unsettled {
		err := change(tx, meshName, host, func(a mesh.Address) mesh.Address {
			a.Holders, _ = held(a.Holders, w.leads[host], k.now())
			return a
		})
		if err != nil {
			return err
		}
	}
	mark := func(hosts []string, at time.Time) error {
		for _, host := range hosts {
			err := change(tx, meshName, host, func(a mesh.Address) mesh.Address { a.Unused = at; return a })
			if err != nil {
				return err
			}
		}
		return nil
	}
	if err := errors.Join(mark(w.used, time.Time{}), mark(w.unused, k.now().UTC())); err != nil {
		return err
	}
	for _, host := range w.over {
		if err := k.forget(tx, meshName, host); err != nil {
			return err
		}
	}
	return nil
}

// forget deletes the row of a name, unless the name has come back: the state that it was chosen
// from may be older than this transaction, or that of another control plane.
func (k *Keeper) forget(tx store.Tx, meshName, host string) error {
	res, err := tx.Get(mesh.Addresses, meshName, host)
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if a := res.Spec.(*mesh.Address); a.Unused.IsZero() || k.now().Sub(a.Unused) <= unusedLife {
		return nil
	}
	return tx.Delete(mesh.Addresses, meshName, host, res.Version)
}

// create stores an address for a name, unless another control plane was first.
func (k *Keeper) create(tx store.Tx, meshName, host string, leads map[uint32]string) error {
	if _, err := tx.Get(mesh.Addresses, meshName, host); !fault.Is(err, fault.NotFound) {
		return err
	}
	a, err := free(tx, meshName, mesh.FirstAddress(host))
	if err != nil {
		return err
	}
	spec := &mesh.Address{Address: a.String()}
	spec.Holders, _ = held(nil, leads, k.now())
	_, err = tx.Create(&model.Resource{Kind: mesh.Addresses, Scope: meshName, Name: host, Spec: spec})
	return err
}

// free returns the first address from a on that no name has, used or not.
func free(tx store.Tx, meshName string, a netip.Addr) (netip.Addr, error) {
	for {
		_, err := tx.Find(mesh.Addresses, meshName, mesh.IndexAddress, a.String())
		switch {
		case fault.Is(err, fault.NotFound):
			return a, nil
		case err != nil:
			return a, err
		}
		a = mesh.NextAddress(a)
	}
}

// change changes the address of a name if there is one.
func change(tx store.Tx, meshName, host string, how func(mesh.Address) mesh.Address) error {
	res, err := tx.Get(mesh.Addresses, meshName, host)
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	next := how(*res.Spec.(*mesh.Address))
	_, err = tx.Update(&model.Resource{Kind: mesh.Addresses, Scope: meshName, Name: host, Spec: &next}, res.Version)
	return err
}
