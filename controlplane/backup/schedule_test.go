package backup

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/store/sqlstore"
)

// scheduled returns a schedule for a database that is not in use, because a bubble does not
// know goroutines outside of it.
func scheduled(t *testing.T) (*Schedule, *bytes.Buffer) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "meshgate.db")
	s, err := sqlstore.Open(t.Context(), sqlstore.Options{Path: path, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	log := &bytes.Buffer{}
	return &Schedule{
		Every: time.Hour, Keep: 2, Directory: filepath.Join(t.TempDir(), "backups"),
		Source: Source{Main: path, Status: filepath.Join(filepath.Dir(path), "status.db")}, Log: slog.New(slog.NewTextHandler(log, nil)),
		Told: func(error) {},
	}, log
}

// names lists a directory.
func names(t *testing.T, dir string) (out []string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		out = append(out, e.Name())
	}
	return out
}

// runFor runs a schedule for some virtual time.
func runFor(t *testing.T, s *Schedule, d time.Duration) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), d)
	defer stop()
	if err := s.Run(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Run: %v", err)
	}
}

// TestSchedule makes backups every hour, over a restart, and keeps two. Other contents of
// the directory stay, except for the unfinished work of a killed process.
func TestSchedule(t *testing.T) {
	s, log := scheduled(t)
	synctest.Test(t, func(t *testing.T) {
		if err := os.MkdirAll(filepath.Join(s.Directory, ".backup-123"), 0o700); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"meshgate-mine.backup", "meshgate-19990101T000000Z.backup.old"} {
			if err := os.WriteFile(filepath.Join(s.Directory, name), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		runFor(t, s, 90*time.Minute) // at 0:00, 1:00
		if at := s.Last(); !at.Equal(time.Date(2000, 1, 1, 1, 0, 0, 0, time.UTC)) {
			t.Errorf("last at %v", at)
		}
		again := &Schedule{Every: s.Every, Keep: s.Keep, Directory: s.Directory, Source: s.Source, Log: s.Log, Told: s.Told}
		runFor(t, again, time.Hour) // at 2:00
		want := []string{"meshgate-19990101T000000Z.backup.old", "meshgate-20000101T010000Z.backup", "meshgate-20000101T020000Z.backup", "meshgate-mine.backup"}
		got := names(t, s.Directory)
		slices.Sort(want)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		if n := strings.Count(log.String(), "a backup was written"); n != 3 || strings.Count(log.String(), "\n") != 3 {
			t.Errorf("%d lines: %s", n, log)
		}
	})
}

// TestScheduleAfterAClockThatWasAhead: a new backup is kept, no matter what the names of
// older ones say.
func TestScheduleAfterAClockThatWasAhead(t *testing.T) {
	s, log := scheduled(t)
	synctest.Test(t, func(t *testing.T) {
		if err := os.MkdirAll(s.Directory, 0o700); err != nil {
			t.Fatal(err)
		}
		ahead := []string{"meshgate-20310101T000000Z.backup", "meshgate-20310102T000000Z.backup", "meshgate-20310103T000000Z.backup"}
		for _, name := range ahead {
			if err := os.WriteFile(filepath.Join(s.Directory, name), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		runFor(t, s, 90*time.Minute) // at 1:00: the last one counts as of now
		if got, want := names(t, s.Directory), append([]string{"meshgate-20000101T010000Z.backup"}, ahead...); !slices.Equal(got, want) {
			t.Errorf("%q, %s", got, log)
		}
	})
}

// TestScheduleTriesAgain: old backups are kept while no new one can be made, and the outcome
// of each attempt is reported.
func TestScheduleTriesAgain(t *testing.T) {
	s, _ := scheduled(t)
	var told []error
	s.Told = func(err error) { told = append(told, err) }
	synctest.Test(t, func(t *testing.T) {
		runFor(t, s, time.Minute)
		moved := s.Source.Main + ".away"
		if err := os.Rename(s.Source.Main, moved); err != nil {
			t.Fatal(err)
		}
		runFor(t, s, 66*time.Minute) // fails at 1:00 and 1:05
		if got := names(t, s.Directory); len(got) != 1 || len(told) != 3 || told[0] != nil || told[1] == nil || told[2] == nil {
			t.Errorf("%q, %v", got, told)
		}
		if err := os.Rename(moved, s.Source.Main); err != nil {
			t.Fatal(err)
		}
		runFor(t, s, time.Minute) // overdue
		if got := names(t, s.Directory); len(got) != 2 || len(told) != 4 || told[3] != nil {
			t.Errorf("%q, %v", got, told)
		}
	})
}
