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

// retryAfter is how long a backup that failed is left alone, if the next is not due
// before.
const retryAfter = 5 * time.Minute

// Names of the backups of a schedule: the moment in between sorts like time.
const (
	prefix = "meshgate-"
	stamp  = "20060102T150405Z"
	suffix = ".backup"
)

// Schedule writes backups at moments of the wall clock into a directory, and removes
// those that are too many. Files with other names in the directory are not touched.
type Schedule struct {
	// Every is the time between two backups.
	Every time.Duration
	// Keep is how many are kept, the newest.
	Keep int
	// Directory is made with mode 0700 if it does not exist.
	Directory string
	// Source is what is backed up.
	Source Source
	// Told hears what became of each attempt: nil for a backup that was written. An
	// attempt that an end of the process cut off is none.
	Told func(error)
	Log  *slog.Logger

	last atomic.Int64
}

// Last is when the newest backup of the directory was begun, as far as is known; zero
// if there is none.
func (s *Schedule) Last() time.Time {
	if at := s.last.Load(); at != 0 {
		return time.Unix(at, 0)
	}
	return time.Time{}
}

// Run writes backups until ctx ends. The first is due at once, or after Every if the
// directory has one that a former process wrote. One that fails is told and tried
// again: a directory that is away is no reason to end.
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

// resume says when the first backup of this process is due, after removing what one
// that was killed left half done.
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

// once writes one backup and removes what is too much. The old ones go only after the
// new one is on disk.
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
	// A name of the future is of a clock that was ahead. Counted as newer, it would
	// have the backup removed that was just written.
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

// names are the backups of the directory, oldest first.
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

// moment is when a backup of this name was begun.
func moment(name string) (time.Time, bool) {
	text, ours := strings.CutPrefix(name, prefix)
	text, backup := strings.CutSuffix(text, suffix)
	at, err := time.Parse(stamp, text)
	return at, ours && backup && err == nil
}
