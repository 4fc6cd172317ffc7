package tokencache

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/meshgate/meshgate/filter/contract"
)

// cachedFiles is a run directory of which a power failure leaves what was brought to
// the disk. Nothing else is: the one before this was killed before it could.
type cachedFiles struct {
	runDirectory
	stuck atomic.Bool

	mu     sync.Mutex
	onDisk []byte
}

var errStuck = errors.New("the disk is stuck")

func (f *cachedFiles) write(name string, data []byte) error {
	if f.stuck.Load() {
		return errStuck
	}
	if err := f.runDirectory.write(name, data); err != nil {
		return err
	}
	return f.sync()
}

func (f *cachedFiles) remove(name string) error {
	if f.stuck.Load() {
		return errStuck
	}
	return f.runDirectory.remove(name)
}

func (f *cachedFiles) sync() error {
	if f.stuck.Load() {
		return errStuck
	}
	data, err := os.ReadFile(filepath.Join(string(f.runDirectory), trustFile))
	f.mu.Lock()
	defer f.mu.Unlock()
	f.onDisk = data
	return err
}

func (f *cachedFiles) afterPowerFailure() []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.onDisk
}

// A filter that was killed may have left a trust that is not on the disk yet. The next
// one is told the same, and must not acknowledge it before it is: after a power failure
// a third would believe what stood there before.
func TestRecalledTrustIsOnDiskBeforeItIsAcknowledged(t *testing.T) {
	d := newDirectory(t)
	d.write(d.leased())
	disk := &cachedFiles{runDirectory: runDirectory(d.dir)}
	d.files = func(string) files { return disk }
	d.open()
	l := d.control.accept()
	l.json(contract.FrameWelcome, contract.Welcome{Scopes: testScopes, Log: testLog, Trust: testTrust})
	l.invalidate(1)
	l.expectAck(1)
	if r, err := parseTrust(disk.afterPowerFailure()); err != nil || r.Trust.Epoch != testEpoch {
		t.Errorf("a power failure leaves %+v (%v)", r, err)
	}
}

// Where the trust of a filter that was killed cannot be brought to the disk, nothing
// says that it is there.
func TestRecalledTrustThatIsNotOnDiskIsNotAcknowledged(t *testing.T) {
	d := newDirectory(t)
	d.write(d.leased())
	disk := &cachedFiles{runDirectory: runDirectory(d.dir)}
	disk.stuck.Store(true)
	d.files = func(string) files { return disk }
	c := d.open()
	l := d.control.accept()
	l.json(contract.FrameWelcome, contract.Welcome{Scopes: testScopes, Log: testLog, Trust: testTrust})
	l.invalidate(1)
	if got, want := l.ack(), (contract.Ack{Applied: 1}); got != want {
		t.Errorf("acknowledged %+v, want %+v", got, want)
	}
	soon(t, "it has tried", func() bool {
		c.disk.mu.Lock()
		defer c.disk.mu.Unlock()
		return c.disk.failed > 0
	})
	disk.stuck.Store(false)
	l.trust(2, contract.Trust{})
	l.expectAck(2)
}
