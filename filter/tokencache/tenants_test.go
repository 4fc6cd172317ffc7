package tokencache

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/meshgate/meshgate/filter/contract"
)

// heldFiles is a run directory of which one file, once that is wanted, is written when it
// is let go.
type heldFiles struct {
	runDirectory
	name        string
	hold        chan struct{} // closed when the next write is to be held
	begun, goOn chan struct{}
	once        sync.Once
}

func (f *heldFiles) write(name string, data []byte) error {
	select {
	case <-f.hold:
		if name == f.name {
			close(f.begun)
			<-f.goOn
			f.hold = nil // later ones are not held
		}
	default:
	}
	return f.runDirectory.write(name, data)
}

// release lets it go.
func (f *heldFiles) release() { f.once.Do(func() { close(f.goOn) }) }

// holding has the first cache that is opened write one of the files when it is let go.
func (d *directory) holding(name string) *heldFiles {
	f := &heldFiles{runDirectory: runDirectory(d.dir), name: name, hold: make(chan struct{}), begun: make(chan struct{}), goOn: make(chan struct{})}
	opened := false
	d.files = func(dir string) files {
		if opened {
			return runDirectory(dir)
		}
		opened = true
		return f
	}
	return f
}

// A cache that closes may be held up by the disk for longer than its goodbye waits. What
// its successor in the same directory was told meanwhile, and has acknowledged to be on
// disk, it leaves there, and replaces it by nothing older.
func TestSuccessorKeepsItsTrust(t *testing.T) {
	next := contract.Trust{Epoch: testEpoch + 1, Servers: testTrust.Servers}
	// goodbye opens a cache, has it held up, and closes it; the link is that of the next.
	goodbye := func(d *directory, f *heldFiles, heldUp func(*fakeLink)) (closed <-chan struct{}, l *fakeLink) {
		d.leaveTimeout = 0 // the first one gives up its goodbye
		first := d.open()
		d.leaveTimeout = patience
		d.t.Cleanup(f.release)
		former := d.entrusted()
		close(f.hold)
		heldUp(former)
		<-f.begun
		closed = closing(first)
		former.expectEnd()
		d.open()
		d.t.Cleanup(f.release)
		l = d.control.accept()
		l.json(contract.FrameWelcome, contract.Welcome{Scopes: testScopes, Log: testLog, Trust: next})
		l.invalidate(1)
		return closed, l
	}
	t.Run("that was written before the goodbye is", func(t *testing.T) {
		d := newDirectory(t)
		f := d.holding(level2File)
		closed, l := goodbye(d, f, func(l *fakeLink) { l.json(contract.FrameLevel2, contract.Level2{Keys: testKeys(testKey)}) })
		l.expectAck(1)
		f.release()
		<-closed
		if r := d.file(); r == nil || r.Trust.Epoch != next.Epoch {
			t.Errorf("on disk: %+v", r)
		}
	})
	t.Run("that waits for an older one to be written", func(t *testing.T) {
		d := newDirectory(t)
		f := d.holding(trustFile)
		closed, l := goodbye(d, f, func(l *fakeLink) {
			l.trust(2, contract.Trust{Epoch: testEpoch + 7, Servers: testTrust.Servers})
			if got, want := l.ack(), (contract.Ack{Applied: 2, Durable: 1}); got != want {
				t.Errorf("acknowledged %+v, want %+v", got, want)
			}
		})
		if got, want := l.ack(), (contract.Ack{Applied: 1}); got != want {
			t.Errorf("acknowledged %+v while another one writes, want %+v", got, want)
		}
		f.release()
		l.expectAck(1)
		<-closed
		if r := d.file(); r == nil || r.Trust.Epoch != next.Epoch {
			t.Errorf("on disk: %+v", r)
		}
	})
}

// Of two caches in one directory the one that was told something last answers for what
// stands there: the other neither brings back what it was told before nor takes it away.
func TestLastToldAnswersForTheFile(t *testing.T) {
	d := newDirectory(t)
	d.open()
	l := d.entrusted()
	second := d.open()
	l2 := d.control.accept()
	says := func(epoch contract.Epoch) contract.Trust {
		return contract.Trust{Epoch: epoch, Servers: testTrust.Servers}
	}
	stands := func(when string, epoch contract.Epoch) {
		t.Helper()
		if r := d.file(); r == nil || r.Trust.Epoch != epoch {
			t.Errorf("%s: on disk %+v, want epoch %d", when, r, epoch)
		}
	}
	l2.json(contract.FrameWelcome, contract.Welcome{Scopes: testScopes, Log: testLog, Trust: says(2)})
	l2.invalidate(1)
	l2.expectAck(1)
	stands("the second was told", 2)
	l.json(contract.FrameLevel2, contract.Level2{Keys: testKeys(testKey)})
	soon(t, "the disk of the first is looked at", func() bool {
		_, err := os.Stat(filepath.Join(d.dir, level2File))
		return err == nil
	})
	stands("the first was told nothing new", 2)
	l.trust(2, says(3))
	l.expectAck(2)
	stands("the first was told", 3)
	second.Close()
	l2.expect(contract.FrameBye)
	stands("the second has taken leave", 3)
}
