package tokencache

import (
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshgate/meshgate/filter/contract"
)

// stallFile puts a file in the place of another one that nobody can open before the end of
// the test: that of a disk which answers nothing.
func stallFile(t *testing.T, path string) {
	t.Helper()
	next := path + ".next"
	if err := syscall.Mkfifo(next, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, path); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if f, err := os.OpenFile(path, os.O_RDWR, 0o600); err == nil { // which lets everybody else in
			_ = os.Remove(path)
			_ = f.Close()
		}
	})
}

// inTime ends the test if something does not end.
func inTime(t *testing.T, what string, do func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatalf("not in time: %s", what)
	}
}

// TestTrustWaitsForNoFile: what the link says of Redis is in force though the disk with the
// authorities of Redis answers nothing.
func TestTrustWaitsForNoFile(t *testing.T) {
	d := newDirectory(t)
	ca := filepath.Join(d.dir, "redis.pem")
	data, err := os.ReadFile(d.cp.CAFile)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, ca, data)
	c, err := Open(Options{
		Settings: &contract.Settings{
			Redis: &contract.RedisSettings{URL: "rediss://127.0.0.1:1", CAFile: ca}, RecordKeys: testKeys(testKey),
			ControlPlane: &d.cp, Cache: contract.CacheSettings{MaxBytes: 1 << 20},
		},
		Logger: slog.New(slog.DiscardHandler), DialLink: d.control.dial, Clock: d.clock,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	stallFile(t, ca)
	l := d.control.accept()
	inTime(t, "the link goes on", func() {
		l.json(contract.FrameWelcome, contract.Welcome{Scopes: testScopes, Log: testLog})
		l.trust(1, testTrust)
		l.expectAck(1)
		l.json(contract.FrameLevel2, contract.Level2{Keys: testKeys(testKey)})
		l.invalidate(2)
		l.expectAck(2)
	})
}

// TestLinkComesBackWithoutTheDisk: a link that broke is there again though the disk with
// its files answers nothing, with what was in them.
func TestLinkComesBackWithoutTheDisk(t *testing.T) {
	for name, file := range map[string]func(*directory) string{
		"authorities": func(d *directory) string { return d.cp.CAFile },
		"token":       func(d *directory) string { return d.cp.TokenFile },
	} {
		t.Run(name, func(t *testing.T) {
			d := newDirectory(t)
			d.open()
			l := d.entrusted()
			stallFile(t, file(d))
			for at := range contract.Position(2) {
				_ = l.conn.Close()
				l = d.control.accept()
				l.welcome()
				l.invalidate(at + 2)
				l.expectAck(at + 2)
			}
		})
	}
}

// TestNoGoodbyeToNobody: a filter that ends while its link is silent keeps its trust, and
// says no goodbye: nobody would hear it, and whoever starts here next needs it.
func TestNoGoodbyeToNobody(t *testing.T) {
	for name, mute := range map[string]bool{"silent": true, "not silent": false} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, worldConfig{}, func(w *world) {
				l := w.live()
				l.mute.Store(mute)
				w.advance(silence + contract.RenewEvery/2)
				synctest.Wait()
				w.cache.Close()
				if epoch := w.cache.Stats().Epoch; (epoch != 0) != mute {
					t.Errorf("the epoch of what is believed is %d", epoch)
				}
				if !mute {
					l.expect(contract.FrameBye)
				}
			})
		})
	}
}

// TestLateReadingIsNotTakenForAFreshOne: a reading that was too late for one link has ended
// by the time of the next, when the token has long been another. The disk is looked at again.
func TestLateReadingIsNotTakenForAFreshOne(t *testing.T) {
	d := newDirectory(t)
	c := d.open()
	d.entrusted()
	c.Close() // the link's goroutine has ended, and its files are the test's
	done := make(chan struct{})
	close(done)
	c.linkFiles.open = &proofsReading{of: d.cp, done: done, read: &proofs{of: d.cp, token: "late"}}
	writeFile(t, d.cp.TokenFile, []byte("rotated"))
	p, err := c.proofs(t.Context(), d.cp)
	if err != nil {
		t.Fatal(err)
	}
	// A disk that is slow now has the last known serve, and is still being read.
	if p.token != "rotated" && c.linkFiles.open == nil {
		t.Errorf("the token is %q, and nobody looks for another", p.token)
	}
	if c.linkFiles.open != nil {
		<-c.linkFiles.open.done
	}
}
