package enrol

import (
	"context"
	"time"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// lookout holds what Removals has not read yet. The lock of Removals guards it.
type lookout struct {
	// all says that all meshes have to be read. meshes are those whose Dataplanes have to
	// be read.
	all    bool
	meshes map[string]bool
	// again is the time before which nothing is read after a failure. failed says that the
	// failure was logged.
	again  time.Time
	failed bool
}

// MeshWritten says that a mesh was created or replaced. Its Dataplanes are then read,
// because they are unknown if the mesh could not be read before. It does not block.
func (r *Removals) MeshWritten(meshName string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unseen.meshes[meshName] = true
	r.signal()
}

// take returns what has to be read now, or when to try again.
func (l *lookout) take(now time.Time) (all bool, meshes []string, again time.Time) {
	switch {
	case !l.all && len(l.meshes) == 0:
		return false, nil, again
	case now.Before(l.again):
		return false, nil, l.again
	}
	for name := range l.meshes {
		meshes = append(meshes, name)
	}
	all, l.all = l.all, false
	clear(l.meshes)
	return all, meshes, again
}

// look starts to watch the Dataplanes that are not known yet. A row that cannot be read
// affects only itself: it is logged, and read again when it is written. If the store cannot
// be read, look returns the time of the next attempt.
func (r *Removals) look(ctx context.Context) (again time.Time) {
	r.mu.Lock()
	all, meshes, again := r.unseen.take(time.Now())
	r.mu.Unlock()
	if !all && len(meshes) == 0 {
		return again
	}
	var unreadable []error
	err := r.Store.View(ctx, func(s store.Reader) error {
		if all {
			known, bad, err := store.ListReadable(s, mesh.Meshes, "")
			if err != nil {
				return err
			}
			unreadable = bad
			for _, m := range known {
				meshes = append(meshes, m.Name)
			}
			for _, t := range mesh.ZoneProxies {
				proxies, bad, err := store.ListReadable(s, mesh.ZoneKind(t), "")
				if err != nil {
					return err
				}
				unreadable = append(unreadable, bad...)
				for _, p := range proxies {
					r.known(mesh.ZoneNodeScope(t), p)
				}
			}
		}
		for _, name := range meshes {
			dataplanes, bad, err := store.ListReadable(s, mesh.Dataplanes, name)
			if err != nil {
				return err
			}
			unreadable = append(unreadable, bad...)
			for _, d := range dataplanes {
				r.known(d.Scope, d)
			}
		}
		return nil
	})
	for _, bad := range unreadable {
		r.Log.Error("a row cannot be read: what an agent that is gone has registered may stay until the row is written again", "error", bad)
	}
	return r.looked(ctx, err, all, meshes)
}

// looked notes the result of look. What failed has to be read again.
func (r *Removals) looked(ctx context.Context, err error, all bool, meshes []string) (again time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := &r.unseen
	if err == nil || ctx.Err() != nil {
		l.again, l.failed = time.Time{}, false
		return again
	}
	l.all, l.again = l.all || all, time.Now().Add(retryRemoval)
	for _, name := range meshes {
		l.meshes[name] = true
	}
	if !l.failed {
		l.failed = true
		r.Log.Error("the dataplanes of meshes cannot be read; who is gone stays until they can", "retry_in", retryRemoval.String(), "error", err)
	}
	return l.again
}

// known starts to watch a Dataplane that existed before. What an event said of it since is newer.
func (r *Removals) known(meshName string, stored *model.Resource) {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := proxyKey{meshName, stored.Name}
	if r.of[k] == "" {
		r.learn(k, instanceOf(stored))
	}
	if _, waits := r.due[k]; !waits && r.streams[k] == 0 {
		r.expect(k, r.After)
	}
}
