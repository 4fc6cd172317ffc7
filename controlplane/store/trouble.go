package store

import (
	"context"

	"github.com/meshgate/meshgate/controlplane/fault"
)

// Trouble is the reason why a store cannot write. A write that meets one changes nothing.
type Trouble string

// The troubles.
const (
	NoTrouble Trouble = ""
	// DiskFull: there is no space, or the quota is used up.
	DiskFull Trouble = "disk_full"
	// ReadOnly: the file system takes no writes. The kernel may have made it read-only after
	// an error.
	ReadOnly Trouble = "read_only"
	// IOError: the disk reports an error.
	IOError Trouble = "io_error"
	// Unknown: it is not known whether the last commit took effect, see [Undecided].
	Unknown Trouble = "undecided"
)

// details are the texts for callers of a write.
var details = map[Trouble]string{
	DiskFull: "nothing was changed: the disk that holds the database of the control plane is full. Writes work again as soon as there is space",
	ReadOnly: "nothing was changed: the file system that holds the database of the control plane is read-only",
	IOError:  "nothing was changed: the disk that holds the database of the control plane reports an I/O error",
}

// Fault returns the error of a write that met the trouble.
func (t Trouble) Fault(cause error) error { return fault.Wrap(fault.Unstored, cause, "%s", details[t]) }

// Prober is implemented by stores that may be unable to write for a while.
type Prober interface {
	// Probe writes something meaningless, and returns the error of that write.
	Probe(ctx context.Context) error
}
