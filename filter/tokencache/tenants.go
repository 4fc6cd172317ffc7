package tokencache

import "sync"

// tenants counts the caches of this process by their run directories. While one closes,
// which may take a while, the next may be opened. The one that closes takes what the
// control plane said from the disk and says goodbye; had the next one read it before,
// the control plane would not know that it is believed.
var tenants = directories{caches: map[string]*tenancy{}}

type directories struct {
	mu     sync.Mutex
	caches map[string]*tenancy
}

// tenancy is one directory with the caches that have it open.
type tenancy struct {
	caches int // with the mutex of directories held
	// writing is held while one of them writes or removes the trust file, so that what it
	// does there, however long the disk takes, is not done to what another one has written.
	// last is who began that last, nil if nobody did: that one answers for what stands there.
	writing sync.Mutex
	last    *disk
}

// enter counts one more cache of a directory, before it reads anything there.
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

// leave counts one less, when it does nothing there any more.
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

// alone says whether there is no other cache of a directory.
func (d *directories) alone(dir string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	t := d.caches[dir]
	return t == nil || t.caches <= 1
}
