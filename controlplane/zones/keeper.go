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
)

// quiet is how long changes are collected before they are written, so that a deployment of many
// instances is few writes.
const quiet = 200 * time.Millisecond

// Bounds of the pause after the store failed.
const (
	firstRetry = time.Second
	lastRetry  = time.Minute
)

// maxServices bounds the services of one ingress, of which each mesh has a share.
const maxServices = 5000

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
	// services are those of all meshes, valid unless stale is set.
	services []mesh.AvailableService
	stale    bool
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
	return &Keeper{views: views, documents: documents, log: log, meshes: map[string]*counted{}}
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
	pause := firstRetry
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
		}
		if err := k.write(ctx, scope.State()); err != nil {
			k.log.Error("the services that other zones can reach could not be stored", "retry_in", pause.String(), "error", err)
			timer.Reset(pause)
			pause = min(2*pause, lastRetry)
			continue
		}
		pause = firstRetry
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-wake:
		}
		timer.Reset(quiet)
	}
}

// write stores the services at every ingress of the zone that has others.
func (k *Keeper) write(ctx context.Context, z *view.Zone) error {
	k.count(z)
	var all []error
	for name, e := range z.Ingresses() {
		if same(e.Spec.AvailableServices, k.services) {
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
			all = append(all, err)
		}
	}
	return errors.Join(all...)
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

// shared returns the services of all meshes. Of too many, a mesh has its share and what smaller
// ones leave of theirs.
func (k *Keeper) shared() (out []mesh.AvailableService) {
	names, of, total := slices.Sorted(maps.Keys(k.meshes)), map[string][]mesh.AvailableService{}, 0
	for _, name := range names {
		services := k.meshes[name].services
		for _, s := range slices.Sorted(maps.Keys(services)) {
			of[name] = append(of[name], services[s].sets...)
		}
		total += len(of[name])
	}
	if total > maxServices {
		k.log.Error("not all services are told to other zones", "services", total, "told", maxServices)
	}
	// Those with the fewest choose first, so that what they leave is known.
	bySize := slices.Clone(names)
	slices.SortStableFunc(bySize, func(a, b string) int { return cmp.Compare(len(of[a]), len(of[b])) })
	room := maxServices
	for i, name := range bySize {
		n := min(len(of[name]), room/(len(bySize)-i))
		of[name], room = of[name][:n], room-n
	}
	for _, name := range names {
		out = append(out, of[name]...)
	}
	return out
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
		if e.Ingress != "" || !e.Ready {
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
