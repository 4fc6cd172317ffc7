package assembly

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"time"

	"github.com/meshgate/meshgate/controlplane/health"
)

// judgeBackup reports the outcome of a scheduled backup as a condition. Without it, nobody
// would notice a failed backup before the backup is needed.
func (cp *ControlPlane) judgeBackup(err error) {
	if err == nil {
		cp.ready.conditions.Good(conditionBackups)
		return
	}
	newest := "there is none"
	if at := cp.backups.Last(); !at.IsZero() {
		newest = "the newest is of " + at.UTC().Format(time.RFC3339)
	}
	cp.ready.conditions.Set(conditionBackups, health.Finding{State: health.Degraded, Reason: backupReason(err), Text: fmt.Sprintf(
		"no backup can be written into %s, and %s: %v. Everything else goes on. It is tried again within 5 minutes; mend what is said, or name another backup.directory and start again. Meanwhile meshgate backup FILE writes one elsewhere",
		cp.cfg.Backup.Directory, newest, err)})
}

// backupReason returns the reason that a condition gives for an error of a backup.
func backupReason(err error) string {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), errors.Is(err, syscall.EROFS):
		return health.DiskReason(err)
	case errors.Is(err, fs.ErrPermission):
		return "no_permission"
	}
	return "failed"
}
