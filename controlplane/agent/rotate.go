package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strconv"

	"github.com/fsnotify/fsnotify"
)

// AccessLog says where a proxy's access log goes. An empty Path means this process's
// standard output.
type AccessLog struct {
	// Path is an absolute path.
	Path string
	// MaxSize is the size in bytes at which the file is rotated. Keep is the number of
	// rotated files; path.1 is the newest.
	MaxSize int64
	Keep    int
}

// prepare creates the file. Envoy must be able to open it, because it refuses its listeners
// otherwise. Only the owner may read the file, because it records who did what.
func (a AccessLog) prepare() error {
	if a.Path == "" {
		return nil
	}
	f, err := os.OpenFile(a.Path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("accessLog.path: %w", err)
	}
	return f.Close()
}

// rotation rotates the access log when it is large. Envoy writes the log and can outlive
// this process. Only the rotation needs this process.
type rotation struct {
	AccessLog
	admin interface {
		Do(ctx context.Context, method, path string) (string, error)
	}
	log *slog.Logger
	// reopen says that Envoy still has to be told to reopen its log.
	reopen bool
}

// run rotates the file until ctx ends. If the log cannot be watched, the gateway serves all
// the same.
func (r *rotation) run(ctx context.Context) {
	if r.Path == "" {
		return
	}
	if err := r.watch(ctx); err != nil {
		r.log.Error("the access log is not rotated any more", "path", r.Path, "error", err)
	}
}

// watch follows the events of the file's directory.
func (r *rotation) watch(ctx context.Context) error {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watch the access log: %w", err)
	}
	defer func() { _ = w.Close() }()
	if err := w.Add(filepath.Dir(r.Path)); err != nil {
		return fmt.Errorf("watch the access log: %w", err)
	}
	r.look(ctx)
	for {
		select {
		case <-ctx.Done():
			return nil
		case e, ok := <-w.Events:
			if !ok {
				return errors.New("watch the access log: the watcher has ended")
			}
			if e.Name == r.Path || r.reopen && e.Name == r.aside(1) {
				r.look(ctx)
			}
		case err := <-w.Errors: // events may be lost, so look at the file
			r.log.Warn("the access log cannot be watched well", "error", err)
			r.look(ctx)
		}
	}
}

func (r *rotation) aside(n int) string { return r.Path + "." + strconv.Itoa(n) }

// look rotates a file that is large, or that another program has moved away.
func (r *rotation) look(ctx context.Context) {
	info, err := os.Stat(r.Path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		r.reopen = true
	case err != nil:
		r.log.Warn("the access log cannot be looked at", "error", err)
		return
	case info.Size() >= r.MaxSize:
		if err := r.shift(); err != nil {
			r.log.Warn("the access log cannot be put aside", "error", err)
			return
		}
		r.reopen = true
	}
	if !r.reopen {
		return
	}
	if err := r.prepare(); err != nil {
		r.log.Warn("the access log cannot be begun anew", "error", err)
		return
	}
	// An Envoy that does not run opens the new file when it starts. An Envoy that is too
	// busy to answer keeps writing to the old file; that causes an event, and the order is
	// repeated.
	if _, err := r.admin.Do(ctx, http.MethodPost, "/reopen_logs"); err != nil {
		r.log.Warn("envoy cannot be told to open its access log anew, it is tried again", "error", err)
		return
	}
	r.reopen = false
}

// shift gives each rotated file the next number. The file with the last number is removed.
func (r *rotation) shift() error {
	for n := r.Keep; n > 1; n-- {
		if err := os.Rename(r.aside(n-1), r.aside(n)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return os.Rename(r.Path, r.aside(1))
}
