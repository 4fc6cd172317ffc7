package tokencache

import (
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/meshgate/meshgate/filter/contract"
)

const (
	// diskRetry is the pause before a failed write is tried again. Nothing tells when a full
	// disk has room again.
	diskRetry = 5 * time.Second
	// forgetTimeout bounds how long a goodbye waits for the disk.
	forgetTimeout = time.Second
)

var errDiskSlow = errors.New("the disk takes too long")

// disk makes the run directory hold what it should. Only its goroutine waits for the disk.
// Invalidations and leases must not wait, or a disk that stalls would cost the lease and
// delay revocations. Without files nothing is stored, and every wish counts as fulfilled.
type disk struct {
	files   files
	tenancy *tenancy
	log     *slog.Logger
	// moved is called after each attempt.
	moved func()
	// patience is how long await waits.
	patience time.Duration

	mu   sync.Mutex
	wish wish
	// done is the number of the newest wish that is on the disk. failed is the number of the
	// newest wish that could not be written, and failure is the reason.
	done, failed uint64
	failure      error
	level2       *rememberedLevel2 // nil if it is on the disk
	attempted    chan struct{}     // closed and replaced after each attempt
	noted        atomic.Int64      // time of the lease in the newest wish, in milliseconds of Unix time

	woken chan struct{} // has room for one
	stop  chan struct{} // closed when no more wishes will come

	// onDisk is the content of the trust file, or nil if it is not known. synced says that
	// the file survives a power failure. trouble is what was logged last. Only the goroutine
	// uses these fields.
	onDisk  *rememberedTrust
	synced  bool
	trouble trouble
}

// wish is what the trust file should hold. A newer wish replaces the waiting one.
type wish struct {
	number uint64
	trust  *rememberedTrust // nil if the file should be removed
	// of is the control plane whose trust should be removed.
	of contract.ControlPlaneSettings
}

// trouble is what is wrong with the run directory.
type trouble uint8

const (
	noTrouble trouble = iota
	// forgetful: something is not written, but no older content is left in its place.
	forgetful
	// outdated: an older trust may be left in the file.
	outdated
)

// run serves wishes until stop is closed, and then makes a last attempt.
func (d *disk) run() {
	retry := time.NewTimer(diskRetry)
	defer retry.Stop()
	for {
		select {
		case <-d.woken:
		case <-retry.C:
		case <-d.stop:
			d.attempt()
			return
		}
		if d.attempt() {
			retry.Stop()
		} else {
			retry.Reset(diskRetry)
		}
	}
}

// keep wishes that the trust file holds r. It returns the number of the wish.
func (d *disk) keep(r *rememberedTrust) uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	if same := d.wish.trust; same != nil && same.agrees(r) {
		return d.wish.number
	}
	d.noted.Store(r.Leased)
	return d.wants(wish{trust: r})
}

// forget wishes that the trust of one control plane is removed.
func (d *disk) forget(cp *contract.ControlPlaneSettings) uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.wants(wish{of: *cp})
}

// wants stores a new wish. The caller holds mu.
func (d *disk) wants(w wish) uint64 {
	w.number = d.wish.number + 1
	d.wish = w
	if d.files == nil {
		d.done = w.number
	}
	d.wake()
	return w.number
}

// noteDue reports whether the time of the last lease in the file may be too old, or was
// taken by a clock that was ahead: a filter that starts later would take such a file for
// none.
func (d *disk) noteDue(leased int64) bool {
	apart := leased - d.noted.Load()
	return d.files != nil && max(apart, -apart) >= leaseNoted.Milliseconds()
}

// note wishes that the file records when this control plane gave the last lease.
func (d *disk) note(cp *contract.ControlPlaneSettings, leased int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.noted.Store(leased)
	if !d.wish.trust.usedBy(cp) {
		return
	}
	r := *d.wish.trust
	r.Leased = leased
	d.wish.trust = &r
	d.wake()
}

// keepLevel2 wishes that the file of the second level holds r.
func (d *disk) keepLevel2(r *rememberedLevel2) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.files != nil {
		d.level2 = r
		d.wake()
	}
}

func (d *disk) wake() {
	select {
	case d.woken <- struct{}{}:
	default: // it will look anyway
	}
}

// fulfilled returns the number up to which wishes are on the disk.
func (d *disk) fulfilled() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.done
}

// newest returns the number of the newest wish. still reports whether this is still the
// newest wish and it has been fulfilled. Then a file that was read in between is valid.
func (d *disk) newest() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.wish.number
}

func (d *disk) still(number uint64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.wish.number == number && d.done == number
}

// await waits until a wish is on the disk. It gives up if writing has failed or takes too
// long.
func (d *disk) await(number uint64) error {
	late := time.NewTimer(d.patience)
	defer late.Stop()
	for {
		d.mu.Lock()
		done, failed, failure, attempted := d.done, d.failed, d.failure, d.attempted
		d.mu.Unlock()
		switch {
		case done >= number:
			return nil
		case failed >= number:
			return failure
		}
		select {
		case <-attempted:
		case <-late.C:
			return errDiskSlow
		}
	}
}

// attempt writes the newest wish to the disk. It returns false if the attempt must be
// repeated.
func (d *disk) attempt() bool {
	d.mu.Lock()
	w, l2, done := d.wish, d.level2, d.done
	d.mu.Unlock()
	state, err := d.bring(w, done)
	var err2 error
	if l2 != nil {
		err2 = writeLevel2(d.files, l2)
	}
	d.mu.Lock()
	if state == outdated {
		d.failed, d.failure = w.number, err
	} else {
		d.done = w.number
	}
	if err2 == nil && d.level2 == l2 {
		d.level2 = nil
	}
	close(d.attempted)
	d.attempted = make(chan struct{})
	d.mu.Unlock()
	if err2 != nil {
		state = max(state, forgetful)
	}
	d.report(state, errors.Join(err, err2))
	d.moved()
	return state == noTrouble
}

// bring makes the trust file match a wish. If the file cannot be written, no older trust may
// stay: a filter that starts later would believe what was revoked.
func (d *disk) bring(w wish, done uint64) (trouble, error) {
	d.tenancy.writing.Lock()
	defer d.tenancy.writing.Unlock()
	another := d.tenancy.last != nil && d.tenancy.last != d
	if another {
		if w.trust == nil || w.number == done {
			return noTrouble, nil // the other disk knows what the file holds, and is responsible for it
		}
		d.onDisk = nil
	}
	switch {
	case w.trust == nil && w.number == done, w.trust != nil && d.holds(w.trust) && d.onDisk.Leased == w.trust.Leased:
		return noTrouble, nil
	case w.trust == nil:
		if r, err := readTrust(d.files); err == nil && r != nil && !r.usedBy(&w.of) {
			return noTrouble, nil // another control plane has written its trust since
		}
		d.tenancy.last, d.onDisk = d, nil
		if err := d.files.remove(trustFile); err != nil {
			return outdated, err
		}
		return noTrouble, nil
	}
	d.tenancy.last = d
	err := writeTrust(d.files, w.trust)
	if err == nil {
		d.onDisk, d.synced = w.trust, true
		return noTrouble, nil
	}
	if d.holds(w.trust) {
		return forgetful, err // only the time of the last lease is older
	}
	d.onDisk = nil
	if gone := d.files.remove(trustFile); gone != nil {
		return outdated, errors.Join(err, gone)
	}
	return forgetful, err
}

// holds reports whether the disk holds a trust, ignoring the time of the last lease. A file
// of an earlier process may not be safe yet: if that process was killed between renaming the
// file and syncing the directory, a power failure would bring the former file back.
func (d *disk) holds(r *rememberedTrust) bool {
	if !d.onDisk.agrees(r) {
		return false
	}
	if !d.synced {
		d.synced = d.files.sync() == nil
	}
	return d.synced
}

// report logs only when the trouble changes, not at each attempt.
func (d *disk) report(now trouble, err error) {
	if now == d.trouble {
		return
	}
	d.trouble = now
	switch now {
	case noTrouble:
		d.log.Info("the run directory can be written again")
	case forgetful:
		d.log.Warn("the run directory cannot be written: a filter that starts here while the control plane is away may not use redis", "error", err)
	case outdated:
		d.log.Warn("the run directory cannot be written and holds an older trust in redis: revocations that do not reach redis stay unconfirmed", "error", err)
	}
}
