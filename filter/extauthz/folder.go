package extauthz

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// maxLinks bounds the symbolic links on the way to a folder, as Linux does (path_resolution(7)).
const maxLinks = 40

// CheckFolder returns an error for the folder of a socket if somebody else than this user and
// root could put a socket of his own there while nobody listens. Whoever connects to that one
// shows it every credential and believes what it answers. The path dir must be absolute.
//
// The folder, each folder above it, and each on the way of a symbolic link must be this user's
// or root's, and nobody else's to write to: whoever may write to a folder may rename what is in
// it. Above the folder, one with the sticky bit (/tmp) may be written to by others, because there
// they cannot rename what belongs to this user or to root. A folder that is missing is an error,
// because somebody else could have made it by the time it is used.
func CheckFolder(dir string) error {
	err := walk(dir)
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%w: others might make it, so make it as this user before, with 'mkdir -p -m 700 %s'", err, dir)
	}
	return err
}

// walk looks at each folder on the way to dir.
func walk(dir string) error {
	at, rest, links := "/", components(dir), 0
	info, err := look(at)
	for ; err == nil && len(rest) > 0; info, err = look(at) {
		if othersWrite(info) && info.Mode()&os.ModeSticky == 0 {
			return openToOthers(at)
		}
		next := filepath.Join(at, rest[0])
		rest = rest[1:]
		if info, err = look(next); err != nil {
			return err
		}
		if info.Mode()&os.ModeSymlink == 0 {
			at = next
			continue
		}
		if links++; links > maxLinks {
			return fmt.Errorf("folder of the socket: there are more than %d symbolic links on the way to %s", maxLinks, dir)
		}
		target, err := os.Readlink(next)
		if err != nil {
			return fmt.Errorf("folder of the socket: %w", err)
		}
		if filepath.IsAbs(target) {
			at = "/"
		}
		rest = slices.Concat(components(target), rest)
	}
	if err == nil && othersWrite(info) {
		return openToOthers(at)
	}
	return err
}

// components returns the names in a path. It keeps "..", which means another folder behind a
// symbolic link than [filepath.Clean] makes of it.
func components(path string) []string {
	return strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
}

// look returns what is at a path. It is an error if that is neither a folder nor a symbolic link,
// or belongs to somebody else.
func look(path string) (os.FileInfo, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, fmt.Errorf("folder of the socket: %w", err)
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !ok || !info.IsDir() && info.Mode()&os.ModeSymlink == 0:
		return nil, fmt.Errorf("%s is no folder", path)
	case int(owner.Uid) != os.Geteuid() && owner.Uid != 0:
		return nil, fmt.Errorf("folder %s belongs to another user, who could put a socket of his own there: choose one of this user, in folders of this user or root", path)
	}
	return info, nil
}

// othersWrite reports whether more users than its owner may write to a folder. Where it has an
// access control list, the bits of the group are the most that the list gives to others.
func othersWrite(info os.FileInfo) bool { return info.Mode().Perm()&0o022 != 0 }

func openToOthers(dir string) error {
	return fmt.Errorf("others may write to folder %s, and could put a socket of their own there: choose another one, or run 'chmod go-w %s'", dir, dir)
}
