// Package zones keeps what other zones are told about this one: the services that they can reach
// through its ingresses.
package zones

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/alarm"
)

// quiet is how long changes are collected before they are written, so that a deployment of many
// instances is few writes.
const quiet = 200 * time.Millisecond

// Bounds of the pause after the store failed.
const (
	firstRetry = time.Second
	lastRetry  = time.Minute
)

// These bound the services of one ingress and their size as they are shown, of which each mesh has a
// share. What else the document of an ingress has fits beside it: others store it as they are shown
// it, and so take no larger one.
const (
	maxServices = 5000
	maxBytes    = model.MaxDocument - 128<<10
)

// bytesOf is how many bytes a service takes at most in a document, which is indented.
func bytesOf(s *mesh.AvailableService) int {
	const each, tag = 80, 12 // the names of members, marks, indents and numbers
	n := each + len(s.Mesh)
	for k, v := range s.Tags {
		n += tag + len(k) + len(v)
	}
	return n
}

// Documents writes documents. [admit.Gate] implements it.
type Documents interface {
	PutDocumentIf(ctx context.Context, k *model.Kind, scope, name string, spec any, allowed admit.Allowed) (admit.Outcome, bool, error)
}

// Keeper writes the availableServices of the ingresses of the zone. It looks only at services that
// are not the same as before, and writes only what differs.
type Keeper struct {
	views     *view.Views
	documents Documents
	log       *slog.Logger

	meshes map[string]*counted
	// retries are the ingresses that could not be written, which are left alone for a while each.
	retries map[string]retry
	// services are those of all meshes, valid unless stale is set.
	services []mesh.AvailableService
	stale    bool
}

// retry is when an ingress is written again, and the pause after that.
type retry struct {
	at    time.Time
	pause time.Duration
}

// counted are the services of a mesh, with the states that they were counted in.
type counted struct {
	state    *view.Mesh
	services map[string]service
}

type service struct {
	of   *view.MeshService
	sets []mesh.AvailableService
}

// New returns a keeper. Run does the work.
func New(views *view.Views, documents Documents, log *slog.Logger) *Keeper {
	return &Keeper{views: views, documents: documents, log: log, meshes: map[string]*counted{}, retries: map[string]retry{}}
}

// Run writes what differs until ctx ends, and returns the error of ctx.
func (k *Keeper) Run(ctx context.Context) error {
	scope, err := k.views.AwaitOwnZone(ctx)
	if err != nil {
		return err
	}
	defer scope.Release()
	wake := make(chan struct{}, 1)
	sub := scope.Subscribe(wake)
	defer sub.Close()
	timer := time.NewTimer(quiet)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
		}
		var again <-chan time.Time
		if next := k.write(ctx, scope.State()); !next.IsZero() {
			again = time.After(time.Until(next))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-wake:
			timer.Reset(quiet)
		case <-again:
			timer.Reset(0)
		}
	}
}

// write stores the services at every ingress of the zone that has others. It returns when one that could not be
// written is to be written again; zero if there is none. Such a one holds up no other.
func (k *Keeper) write(ctx context.Context, z *view.Zone) (next time.Time) {
	k.count(z)
	retries := map[string]retry{}
	for name, e := range z.Ingresses() {
		if same(e.Spec.AvailableServices, k.services) {
			continue
		}
		last, failed := k.retries[name]
		if failed && time.Now().Before(last.at) {
			retries[name] = last
			continue
		}
		spec := *e.Spec
		spec.AvailableServices = k.services
		_, _, err := k.documents.PutDocumentIf(ctx, mesh.ZoneIngresses, "", name, &spec, func(_ store.Reader, stored *model.Resource) error {
			if stored == nil || stored.Version != e.Version || stored.Created != e.Created {
				return errMoved // a newer state is about to come
			}
			return nil
		})
		if err != nil && !errors.Is(err, errMoved) && !fault.Is(err, fault.NotFound) {
			pause := max(last.pause, firstRetry)
			k.log.Error("the services that other zones can reach could not be stored", "ingress", name, "retry_in", pause.String(), "error", err)
			retries[name] = retry{time.Now().Add(pause), min(2*pause, lastRetry)}
		}
	}
	k.retries = retries
	for _, r := range retries {
		next = alarm.Sooner(next, r.at)
	}
	return next
}

var errMoved = errors.New("the ingress was written meanwhile")

func same(a, b []mesh.AvailableService) bool {
	return slices.EqualFunc(a, b, func(x, y mesh.AvailableService) bool { return reflect.DeepEqual(x, y) })
}

// count brings the services up to date.
func (k *Keeper) count(z *view.Zone) {
	seen := map[string]bool{}
	for name, m := range z.Meshes() {
		seen[name] = true
		k.mesh(name, m)
	}
	for name := range k.meshes {
		if !seen[name] {
			delete(k.meshes, name)
			k.stale = true
		}
	}
	if !k.stale {
		return
	}
	k.stale = false
	k.services = k.shared()
}

// offer are the services of a mesh, and their bytes.
type offer struct {
	services []mesh.AvailableService
	bytes    int
}

// cut leaves out what is too much.
func (o *offer) cut(services, bytes int) {
	for n := range o.services {
		size := bytesOf(&o.services[n])
		if n == services || size > bytes {
			o.services = o.services[:n]
			return
		}
		bytes -= size
	}
}

// shared returns the services of all meshes. Of too many, a mesh has its share and what smaller
// ones leave of theirs.
func (k *Keeper) shared() (out []mesh.AvailableService) {
	names, of, total := slices.Sorted(maps.Keys(k.meshes)), map[string]*offer{}, 0
	for _, name := range names {
		o := &offer{}
		services := k.meshes[name].services
		for _, s := range slices.Sorted(maps.Keys(services)) {
			o.services = append(o.services, services[s].sets...)
		}
		o.bytes = bytesOfAll(o.services)
		of[name], total = o, total+len(o.services)
	}
	// Those with the fewest choose first, so that what they leave is known.
	bySize := slices.Clone(names)
	slices.SortStableFunc(bySize, func(a, b string) int { return cmp.Compare(of[a].bytes, of[b].bytes) })
	services, bytes := maxServices, maxBytes
	for i, name := range bySize {
		o, rest := of[name], len(bySize)-i
		o.cut(services/rest, bytes/rest)
		services, bytes = services-len(o.services), bytes-bytesOfAll(o.services)
	}
	for _, name := range names {
		out = append(out, of[name].services...)
	}
	if total > len(out) {
		k.log.Error("not all services are told to other zones", "services", total, "told", len(out))
	}
	return out
}

func bytesOfAll(services []mesh.AvailableService) (n int) {
	for i := range services {
		n += bytesOf(&services[i])
	}
	return n
}

func (k *Keeper) mesh(name string, m *view.Mesh) {
	c := k.meshes[name]
	if c == nil {
		c = &counted{services: map[string]service{}}
		k.meshes[name] = c
	}
	if c.state == m {
		return
	}
	c.state = m
	for s := range m.Services() {
		if old := c.services[s.Name]; old.of != s {
			sets := instances(name, s)
			k.stale = k.stale || !same(old.sets, sets)
			c.services[s.Name] = service{s, sets}
		}
	}
	for s, old := range c.services {
		if m.Service(s) == nil {
			delete(c.services, s)
			k.stale = k.stale || len(old.sets) > 0
		}
	}
}

// instances counts the instances of a service in this zone that get connections, by their tags.
func instances(meshName string, s *view.MeshService) (out []mesh.AvailableService) {
	at := map[string]int{}
	for i := range s.Endpoints {
		e := &s.Endpoints[i]
		// An ingress takes no more tags. A dataplane that is older than that limit may have them.
		if e.Ingress != "" || !e.Ready || len(e.Tags) > mesh.MaxTags {
			continue
		}
		key := e.Tags.String()
		if n, known := at[key]; known {
			out[n].Instances++
			continue
		}
		at[key] = len(out)
		out = append(out, mesh.AvailableService{Tags: e.Tags, Instances: 1, Mesh: meshName})
	}
	slices.SortFunc(out, func(a, b mesh.AvailableService) int { return cmp.Compare(a.Tags.String(), b.Tags.String()) })
	return out
}
