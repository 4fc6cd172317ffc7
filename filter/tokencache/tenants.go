package tokencache

import "sync"

// tenants counts the caches of this process by their run directories. While one closes,
// which may take a while, the next may be opened. The one that closes takes what the
// control plane said from the disk and says goodbye; had the next one read it before,
// the control plane would not know that it is believed.
var tenants = directories{caches: map[string]int{}}

type directories struct {
	mu     sync.Mutex
	caches map[string]int
}

// enter counts one more cache of a directory, before it reads anything there.
func (d *directories) enter(dir string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.caches[dir]++
}

// leave counts one less, when it does nothing there any more.
func (d *directories) leave(dir string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.caches[dir]--; d.caches[dir] <= 0 {
		delete(d.caches, dir)
	}
}

// alone says whether there is no other cache of a directory.
func (d *directories) alone(dir string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.caches[dir] <= 1
}
