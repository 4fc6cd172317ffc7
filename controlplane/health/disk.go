package health

import (
	"errors"
	"syscall"
)

// DiskReason returns the reason of an error while writing a file.
func DiskReason(err error) string {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return "disk_full"
	case errors.Is(err, syscall.EROFS):
		return "read_only"
	}
	return "io_error"
}
