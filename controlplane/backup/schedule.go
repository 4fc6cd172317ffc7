package backup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/meshgate/meshgate/xds/alarm"
)

// retryAfter is how long to wait after a failed backup, unless the next one is due earlier.
const retryAfter = 5 * time.Minute

// Names of the backups of a schedule. The time in the name sorts chronologically.
const (
	prefix = "meshgate-"
	stamp  = "20060102T150405Z"
	suffix = ".backup"
)

// Schedule writes backups into a directory, at times of the wall clock, and removes surplus
// ones. It does not touch files with other names in the directory.
type Schedule struct {
	// Every is the time between two backups.
	Every time.Duration
	// Keep is the number of backups that are kept, the newest ones.
	Keep int
	// Directory is made with mode 0700 if it does not exist.
	Directory string
	// Source is what is backed up.
	Source Source
	// Told is called with the outcome of each attempt, nil for a backup that was written. An
	// attempt that was cut off by the end of the process does not count.
	Told func(error)
	Log  *slog.Logger

	last atomic.Int64
}

// Last returns when the newest known backup of the directory was begun, or zero if there is
// none.
func (s *Schedule) Last() time.Time {
	if at := s.last.Load(); at != 0 {
		return time.Unix(at, 0)
	}
	return time.Time{}
}

// Run writes backups until ctx ends. The first one is due at once, or Every after the newest
// one of a former process. A failure is reported and tried again, because a directory that
// is away is no reason to end.
func (s *Schedule) Run(ctx context.Context) error {
	due := s.resume()
	for {
		if err := alarm.Wait(ctx, s.Source.Now, due); err != nil {
			return err
		}
		due = s.now().Add(s.Every)
		err := s.once(ctx)
		if err != nil && ctx.Err() != nil {
			return ctx.Err()
		}
		s.Told(err)
		if err != nil {
			due = s.now().Add(min(s.Every, retryAfter))
		}
	}
}

// resume returns when the first backup of this process is due. It first removes the
// unfinished work of killed processes.
func (s *Schedule) resume() time.Time {
	now := s.now()
	names, err := s.prepare()
	if err != nil {
		s.Log.Error("the directory of backups cannot be used", "directory", s.Directory, "error", err)
	}
	if len(names) == 0 {
		return now
	}
	at, _ := moment(names[len(names)-1])
	s.last.Store(at.Unix())
	if at.After(now) { // the clock was set back
		at = now
	}
	return at.Add(s.Every)
}

func (s *Schedule) now() time.Time {
	if s.Source.Now == nil {
		return time.Now()
	}
	return s.Source.Now()
}

// once writes one backup and then removes surplus ones. The old ones are removed only after
// the new one is on disk.
func (s *Schedule) once(ctx context.Context) error {
	if err := os.MkdirAll(s.Directory, 0o700); err != nil {
		return err
	}
	began := s.now()
	path := filepath.Join(s.Directory, prefix+began.UTC().Format(stamp)+suffix)
	m, err := Write(ctx, s.Source, path)
	if err != nil {
		return err
	}
	s.last.Store(began.Unix())
	names, err := s.names()
	if err != nil {
		return err
	}
	// A name with a future time comes from a clock that was ahead. If it counted as newer,
	// the backup that was just written would be removed.
	if i := slices.Index(names, filepath.Base(path)); i >= 0 {
		names = names[:i+1]
	}
	removed := 0
	for _, name := range names[:max(0, len(names)-s.Keep)] {
		if err := os.Remove(filepath.Join(s.Directory, name)); err != nil {
			return fmt.Errorf("removing an old backup: %w", err)
		}
		removed++
	}
	s.Log.Info("a backup was written", "file", path, "revision", m.Revision, "removed", removed, "took", s.now().Sub(began).Round(time.Millisecond))
	return nil
}

func (s *Schedule) prepare() ([]string, error) {
	if err := removeLeft(s.Directory); err != nil {
		return nil, err
	}
	return s.names()
}

// names returns the backups of the directory, oldest first.
func (s *Schedule) names() (names []string, err error) {
	list, err := os.ReadDir(s.Directory)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, e := range list {
		if _, ok := moment(e.Name()); ok && e.Type().IsRegular() {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	return names, nil
}

// moment returns when the backup with this name was begun.
func moment(name string) (time.Time, bool) {
	text, ours := strings.CutPrefix(name, prefix)
	text, backup := strings.CutSuffix(text, suffix)
	at, err := time.Parse(stamp, text)
	return at, ours && backup && err == nil
}
