package accesslogs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/meshgate/meshgate/controlplane/mesh"
)

// file is a log that is put aside when it is large. Nothing leads out of its directory, neither
// .. nor a symbolic link.
type file struct {
	// dir is one of the directories of the agent, and name the path in it.
	dir, name string
	maxSize   int64
	keep      int

	root *os.Root
	f    *os.File
	// stuck is why the file could not be put aside. It then grows to twice its size at most, and
	// putting it aside is tried again with each write.
	stuck error
	// torn says that a line was begun and not ended, as where the disk was full. The file is not
	// put aside before its end.
	torn bool
}

// newFile finds the directory of a path.
func newFile(path string, o *Options) (*file, error) {
	if wrong := mesh.CheckLogFile(path); wrong != "" {
		return nil, errors.New("its path " + wrong)
	}
	if !filepath.IsAbs(path) && len(o.Directories) > 0 {
		path = filepath.Join(o.Directories[0], path)
	}
	for _, dir := range o.Directories {
		name, err := filepath.Rel(dir, path)
		if err != nil || !filepath.IsLocal(name) || name == "." {
			continue
		}
		return &file{dir: dir, name: name, maxSize: o.MaxSize, keep: o.Keep}, nil
	}
	return nil, fmt.Errorf("the file is not below a directory that the proxy's agent may write logs to (--access-log-dir): %s", strings.Join(o.Directories, ", "))
}

func (l *file) close() {
	if l.f != nil {
		_ = l.f.Close()
	}
	if l.root != nil {
		_ = l.root.Close()
	}
	l.f, l.root = nil, nil
}

// write appends lines. A file that another program has moved away or removed is begun anew.
func (l *file) write(_ context.Context, lines []byte) (int, error) {
	info, err := l.open()
	if err != nil {
		l.close()
		return 0, err
	}
	if l.stuck = nil; !l.torn && info.Size() > 0 && info.Size()+int64(len(lines)) > l.maxSize {
		l.stuck = l.rotate(info.Size() > 2*l.maxSize)
		switch {
		case l.stuck != nil && info.Size() > 2*l.maxSize:
			return 0, l.stuck
		case l.stuck == nil:
			if _, err := l.open(); err != nil {
				l.close()
				return 0, err
			}
		}
	}
	n, err := l.f.Write(lines)
	if n > 0 {
		l.torn = lines[n-1] != '\n'
	}
	return n, err
}

func (l *file) standing() error { return l.stuck }

// open opens the file unless it is open, and returns what is at its path.
func (l *file) open() (os.FileInfo, error) {
	if l.root == nil {
		if err := os.MkdirAll(l.dir, 0o700); err != nil {
			return nil, err
		}
		root, err := os.OpenRoot(l.dir)
		if err != nil {
			return nil, err
		}
		l.root = root
	}
	if l.f != nil {
		own, err := l.f.Stat()
		if err != nil {
			return nil, err
		}
		if there, err := l.root.Stat(l.name); err == nil && os.SameFile(own, there) {
			return own, nil
		}
		_ = l.f.Close()
		l.f = nil
	}
	if parent := filepath.Dir(l.name); parent != "." {
		if err := l.root.MkdirAll(parent, 0o700); err != nil {
			return nil, err
		}
	}
	// Nothing waits for the reader of a pipe that somebody has put there.
	f, err := l.root.OpenFile(l.name, os.O_WRONLY|os.O_APPEND|os.O_CREATE|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is no regular file", filepath.Join(l.dir, l.name))
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	l.f = f
	return info, nil
}

// rotate puts the file aside. A lock on the directory keeps agents that share a file from doing
// so twice; the one that comes too late finds another file at the path.
// Whoever may read the directory can hold that lock, too, so it is waited for only as long as the
// file is not far too large.
func (l *file) rotate(overdue bool) error {
	dir, err := l.root.Open(".")
	if err != nil {
		return fmt.Errorf("put the file aside: %w", err)
	}
	defer func() { _ = dir.Close() }()
	switch err := syscall.Flock(int(dir.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); {
	case errors.Is(err, syscall.EWOULDBLOCK) && !overdue:
		return nil // the other one does it, and the file is looked at again
	case err != nil:
		return fmt.Errorf("put the file aside: lock %s: %w", l.dir, err)
	}
	own, err := l.f.Stat()
	if err != nil {
		return fmt.Errorf("put the file aside: %w", err)
	}
	if there, err := l.root.Stat(l.name); err != nil || !os.SameFile(own, there) {
		return nil //nolint:nilerr // it is opened anew
	}
	for n := l.keep; n > 1; n-- {
		if err := l.root.Rename(l.aside(n-1), l.aside(n)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("put the file aside: %w", err)
		}
	}
	if err := l.root.Rename(l.name, l.aside(1)); err != nil {
		return fmt.Errorf("put the file aside: %w", err)
	}
	return nil
}

func (l *file) aside(n int) string { return l.name + "." + strconv.Itoa(n) }
