package agent

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// reopener is an Envoy that writes to the file that it has open.
type reopener struct {
	path  string
	fails int
	asked chan string
}

func (r *reopener) Do(_ context.Context, method, path string) (string, error) {
	if r.fails > 0 {
		r.fails--
		r.asked <- "failed"
		return "", errors.New("away")
	}
	r.asked <- method + " " + path
	return "", nil
}

func (r *reopener) expect(t *testing.T, want string) {
	t.Helper()
	select {
	case got := <-r.asked:
		if got != want {
			t.Fatalf("envoy was asked %q, want %q", got, want)
		}
	case <-time.After(patience):
		t.Fatalf("envoy was not asked %q", want)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func holds(t *testing.T, path, want string) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil || string(got) != want {
		t.Errorf("%s holds %q, %v; want %q", filepath.Base(path), got, err, want)
	}
}

func TestRotation(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	envoy := &reopener{path: path, asked: make(chan string, 8)}
	a := AccessLog{Path: path, MaxSize: 10, Keep: 2}
	if err := a.prepare(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- (&rotation{AccessLog: a, admin: envoy, log: slog.New(slog.DiscardHandler)}).watch(ctx)
	}()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	const tell = "POST /reopen_logs"
	for _, text := range []string{"the first one", "the second one", "the third one"} {
		write(t, path, text)
		envoy.expect(t, tell)
	}
	holds(t, path, "")
	holds(t, path+".1", "the third one")
	holds(t, path+".2", "the second one")
	if _, err := os.Stat(path + ".3"); err == nil {
		t.Error("more files are kept than should be")
	}
	// Another program, such as logrotate, moves the file away.
	write(t, path, "short")
	if err := os.Rename(path, path+".mine"); err != nil {
		t.Fatal(err)
	}
	envoy.expect(t, tell)
	holds(t, path, "")
}

// An Envoy that could not be told keeps writing to the rotated file. The agent notices that
// and tells it again.
func TestRotationIsToldAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	envoy := &reopener{path: path, fails: 1, asked: make(chan string, 8)}
	write(t, path, "more than ten")
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- (&rotation{AccessLog: AccessLog{Path: path, MaxSize: 10, Keep: 1}, admin: envoy, log: slog.New(slog.DiscardHandler)}).watch(ctx)
	}()
	envoy.expect(t, "failed")
	write(t, path+".1", " and more")
	envoy.expect(t, "POST /reopen_logs")
	holds(t, path+".1", "more than ten and more")
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestAccessLogMustBeWritable(t *testing.T) {
	if err := (AccessLog{Path: filepath.Join(t.TempDir(), "no", "log")}).prepare(); err == nil {
		t.Error("a file that cannot be made was taken")
	}
}
