package store

import (
	"context"

	"github.com/meshgate/meshgate/controlplane/fault"
)

// Trouble is why a store cannot write. Nothing of a write that meets one is made.
type Trouble string

// The troubles.
const (
	NoTrouble Trouble = ""
	// DiskFull: there is no room, or the quota is used up.
	DiskFull Trouble = "disk_full"
	// ReadOnly: the file system does not take writes, such as one that the kernel
	// has made read-only after an error.
	ReadOnly Trouble = "read_only"
	// IOError: the disk reports an error.
	IOError Trouble = "io_error"
	// Unknown: it is not known whether the last commit took effect, see [Undecided].
	Unknown Trouble = "undecided"
)

// details are what callers of a write are told.
var details = map[Trouble]string{
	DiskFull: "nothing was changed: the disk that holds the database of the control plane is full. Writes work again as soon as there is space",
	ReadOnly: "nothing was changed: the file system that holds the database of the control plane is read-only",
	IOError:  "nothing was changed: the disk that holds the database of the control plane reports an I/O error",
}

// Fault is the error of a write that met the trouble.
func (t Trouble) Fault(cause error) error { return fault.Wrap(fault.Unstored, cause, "%s", details[t]) }

// Prober is implemented by stores that may be unable to write for a while.
type Prober interface {
	// Probe writes something of no meaning, and returns the error of that.
	Probe(ctx context.Context) error
}
