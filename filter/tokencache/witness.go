package tokencache

import (
	"encoding/binary"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/meshgate/meshgate/filter/contract"
)

// witnessSlots is how many counters of invalidations a page has, a power of two. Tokens
// and owners share them: two that share one outdate each other's proofs, which costs a
// decision and no more.
const witnessSlots = 1 << 12

// Page is what code outside Go reads to learn whether a [Proof] still holds. All words are
// read and written atomically. Its memory is not Go's and is never given back, so that a
// reader needs no lock and no count of users.
type Page struct {
	// Generation changes whenever anything changes that is not a single invalidation.
	Generation atomic.Uint64
	// LeaseEnd is when memory may no longer answer, in nanoseconds of CLOCK_MONOTONIC; 0 is
	// no lease. Apart is how far CLOCK_REALTIME was ahead of that clock when the lease was
	// asked for. A reader of both reads LeaseEnd once more behind them: it never has the
	// same value twice.
	LeaseEnd, Apart atomic.Int64
	_               [5]uint64 // the first cache line is read by every request
	// Slots count invalidations.
	Slots [witnessSlots]atomic.Uint64
}

// Proof says that a look-up of a token finds the same record, for as long as Page says
// the same and End has not come. It is comparable.
type Proof struct {
	Page       *Page
	Generation uint64
	// Slots are those of the token, its credential and its consumer, Counts what they count.
	Slots  [3]uint32
	Counts [3]uint64
	// Revision is that of the record.
	Revision uint64
	// End is when the record serves no more, in milliseconds of Unix time; 0 is never.
	End int64
}

// witness keeps a page up to date. Whoever changes what look-ups find says so here
// afterwards, and before anybody is told that it is done: who reads the page before has
// asked before.
type witness struct {
	page *Page
	// ahead is by how much CLOCK_MONOTONIC is ahead of the cache's clock, at most. It is
	// read once, so that a lease that is shown never ends later than it does.
	ahead time.Duration
}

// pages are those whose cache is closed. Their counters go on where they are, so that no
// proof of the former owner holds for the next one.
var pages struct {
	sync.Mutex
	free []*Page
}

// newWitness returns nil if there is no memory for a page, or no clock. A clock that is not
// the system's, as in tests, is shown as it is.
func newWitness(clock Clock) *witness {
	w := &witness{}
	if c, ok := clock.(systemClock); ok {
		if w.ahead, ok = c.ahead(); !ok {
			return nil
		}
	}
	if w.page = newPage(); w.page == nil {
		return nil
	}
	return w
}

// ahead is by how much CLOCK_MONOTONIC is ahead. Whoever is interrupted between the two
// readings reads too little, so the most of some counts.
func (c systemClock) ahead() (most time.Duration, ok bool) {
	for range 16 {
		var t unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
			return 0, false
		}
		most = max(most, time.Duration(t.Nano())-c.Now().Mono)
	}
	return most, true
}

func newPage() *Page {
	pages.Lock()
	defer pages.Unlock()
	if n := len(pages.free); n > 0 {
		p := pages.free[n-1]
		pages.free = pages.free[:n-1]
		return p
	}
	memory, err := unix.Mmap(-1, 0, int(unsafe.Sizeof(Page{})), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil
	}
	return (*Page)(unsafe.Pointer(unsafe.SliceData(memory))) //nolint:gosec // the kernel has given these bytes, whole pages of them, for this
}

// close lets nothing hold that was proven by the page, and gives it to the next cache.
func (w *witness) close() {
	if w == nil {
		return
	}
	w.outdated()
	pages.Lock()
	defer pages.Unlock()
	pages.free = append(pages.free, w.page)
}

// outdated says that something has changed that concerns every token.
func (w *witness) outdated() {
	if w != nil {
		w.page.Generation.Add(1)
	}
}

// invalidated says that an invalidation is applied.
func (w *witness) invalidated(slot uint32) {
	if w != nil {
		w.page.Slots[slot].Add(1)
	}
}

// leased shows a lease; nil is none. Calls come one after the other.
func (w *witness) leased(l *lease) {
	if w == nil {
		return
	}
	w.page.LeaseEnd.Store(0)
	if l != nil {
		w.page.Apart.Store(int64(l.apart - w.ahead))
		w.page.LeaseEnd.Store(int64(l.end + w.ahead))
	}
}

// slotOf is where invalidations of a token are counted.
func slotOf(hash *contract.Hash) uint32 {
	return binary.LittleEndian.Uint32(hash[8:]) & (witnessSlots - 1)
}

// slot is where invalidations of an owner are counted.
func (o owner) slot() uint32 {
	return uint32(o.spot().a>>16) & (witnessSlots - 1) //nolint:gosec // any part of it will do
}

// Prove says what a look-up of a token finds at this moment, and until when. ok is false
// if it finds no usable record, or nobody could tell when that ends. Whoever wants to keep
// what was decided by the record proves it, decides, and proves it again: if both are the
// same, so was the record in between.
func (c *Cache) Prove(hash contract.Hash) (p Proof, ok bool) {
	w := c.witness
	if w == nil {
		return p, false
	}
	p.Page, p.Generation = w.page, w.page.Generation.Load()
	token := slotOf(&hash)
	p.Slots[0], p.Counts[0] = token, w.page.Slots[token].Load()
	now := c.clock.Now()
	if !c.leased(now) {
		return p, false
	}
	e, ok := c.table.usable(&hash, now)
	if !ok {
		return p, false
	}
	// The owners are known only now, so their floors are looked at again behind their counts.
	for i, o := range [...]owner{e.credential, e.consumer} {
		p.Slots[i+1], p.Counts[i+1] = o.slot(), w.page.Slots[o.slot()].Load()
	}
	if !c.table.floors.admits(&hash, e.revision, e.credential, e.consumer) {
		return p, false
	}
	p.Revision, p.End = e.revision, max(e.end, -e.end)
	return p, true
}
