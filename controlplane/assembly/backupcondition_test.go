package assembly

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshgate/meshgate/controlplane/health"
)

// TestFailingBackupIsACondition: a schedule that cannot write reports this with one line in
// the log. As long as it lasts, /ready and GET /conditions, which meshgate status asks, show
// it too. The next successful backup ends it.
func TestFailingBackupIsACondition(t *testing.T) {
	cp, log := stateOf(t, t.TempDir())
	if err := cp.openStore(t.Context()); err != nil {
		t.Fatal(err)
	}
	cp.closers.run(t.Context()) // a bubble must not wait for goroutines outside of it
	cp.cfg.Backup.Every, cp.cfg.Backup.Keep = time.Hour, 2
	cp.cfg.Backup.Directory = filepath.Join(t.TempDir(), "backups")
	if err := os.WriteFile(cp.cfg.Backup.Directory, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	cp.ready.serving.Store(true)
	synctest.Test(t, func(t *testing.T) {
		cp.ready.conditions = newConditions(cp.Log)
		cp.backups = cp.backupSchedule()
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- cp.backups.Run(ctx) }()
		time.Sleep(11 * time.Minute) // it fails at 0:00, 0:05 and 0:10
		synctest.Wait()
		status, a := readyOf(t, cp)
		c := conditionOf(a, conditionBackups)
		if status != http.StatusOK || c.State != health.Degraded || c.Reason != "failed" || !strings.Contains(c.Text, cp.cfg.Backup.Directory) || !strings.Contains(c.Text, "there is none") {
			t.Errorf("%d %+v", status, c)
		}
		if got := conditionOf(asked(t, cp, "").Answer, conditionBackups); got != c {
			t.Errorf("GET /conditions: %+v", got)
		}
		if n := strings.Count(log.String(), "the backup failed"); n != 1 {
			t.Errorf("%d lines of three attempts: %s", n, log)
		}
		if err := os.Remove(cp.cfg.Backup.Directory); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if _, a := readyOf(t, cp); conditionOf(a, conditionBackups).State != health.OK || strings.Count(log.String(), "backups are written again") != 1 {
			t.Errorf("%+v %s", a, log)
		}
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("the schedule ended with %v", err)
		}
	})
}

// TestBackupReasons: errors with different remedies have different reasons.
func TestBackupReasons(t *testing.T) {
	for err, want := range map[error]string{
		syscall.ENOSPC: "disk_full", syscall.EROFS: "read_only", fs.ErrPermission: "no_permission", syscall.ENOTDIR: "failed", errors.New("busy"): "failed",
	} {
		if got := backupReason(fmt.Errorf("write: %w", err)); got != want {
			t.Errorf("%v: %s", err, got)
		}
	}
}
