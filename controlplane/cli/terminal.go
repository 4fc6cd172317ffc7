package cli

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// IsTerminal reports whether what is written there is seen on a terminal. Other devices, such as
// /dev/null, are none.
func IsTerminal(out io.Writer) bool {
	file, ok := out.(*os.File)
	if !ok {
		return false
	}
	raw, err := file.SyscallConn()
	if err != nil {
		return false
	}
	is := false
	err = raw.Control(func(fd uintptr) {
		_, refused := unix.IoctlGetTermios(int(fd), unix.TCGETS)
		is = refused == nil
	})
	return err == nil && is
}
