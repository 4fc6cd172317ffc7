package tokencache

import "sync"

// tenants counts the caches of this process by run directory. While one cache closes, which
// may take a while, the next may be opened. The closing cache removes what the control plane
// said from the disk and then says goodbye. If the next cache had read it before, it would
// believe something without the knowledge of the control plane.
var tenants = directories{caches: map[string]*tenancy{}}

type directories struct {
	mu     sync.Mutex
	caches map[string]*tenancy
}

// tenancy is one directory with the caches that have it open.
type tenancy struct {
	caches int // guarded by the mutex of directories
	// writing is held while one of the caches writes or removes the trust file, so that a
	// slow write or removal cannot hit what another cache has written. last is the disk that
	// began the last of these operations, or nil if there was none. It is responsible for
	// the content of the file.
	writing sync.Mutex
	last    *disk
}

// enter counts one more cache of a directory. It must be called before that cache reads
// anything there.
func (d *directories) enter(dir string) *tenancy {
	d.mu.Lock()
	defer d.mu.Unlock()
	t := d.caches[dir]
	if t == nil {
		t = &tenancy{}
		d.caches[dir] = t
	}
	t.caches++
	return t
}

// leave counts one cache less. It must be called when the cache does nothing there any more.
func (d *directories) leave(dir string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	t := d.caches[dir]
	if t == nil {
		return
	}
	if t.caches--; t.caches <= 0 {
		delete(d.caches, dir)
	}
}

// alone reports whether a directory has no other cache.
func (d *directories) alone(dir string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	t := d.caches[dir]
	return t == nil || t.caches <= 1
}
