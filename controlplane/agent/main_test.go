package agent

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// patience bounds the wait for what is expected. A busy machine takes long, and no test passes
// because the time is up.
const patience = time.Minute

// roleEnv makes the test binary play a role instead of testing.
const roleEnv = "MESHGATE_AGENT_TEST_ROLE"

// TestMain plays Envoy if a test has started this binary as one.
func TestMain(m *testing.M) {
	switch os.Getenv(roleEnv) {
	case "envoy": // stays until SIGTERM
		fmt.Fprintf(os.Stderr, "info\tmain\targs %q\n", os.Args[1:])
		fmt.Fprintf(os.Stderr, "info\tmain\tenv %s %s\n", os.Getenv("ENVOY_DYNAMIC_MODULES_SEARCH_PATH"), os.Getenv("MESHGATE_FILTER_SETTINGS"))
		fmt.Fprintf(os.Stderr, "info\tmain\tsettings %q\n", settingsOf(os.Environ()))
		end := make(chan os.Signal, 1)
		signal.Notify(end, syscall.SIGTERM)
		fmt.Fprintln(os.Stderr, "info\tmain\tup")
		<-end
	case "sleeper": // stays until its standard input closes, at the latest with the test
		fmt.Println("up")
		_, _ = io.Copy(io.Discard, os.Stdin)
	case "crash":
		fmt.Println("up")
		fmt.Fprintln(os.Stderr, "critical\tmain\tcannot go on")
		os.Exit(3)
	default:
		goleak.VerifyTestMain(m)
	}
}

// settingsOf returns the names of the variables of Meshgate and of its tracing.
func settingsOf(environment []string) (names []string) {
	for _, v := range environment {
		if name, _, _ := strings.Cut(strings.ToUpper(v), "="); strings.HasPrefix(name, "MESHGATE_") || strings.HasPrefix(name, "OTEL_") || strings.HasPrefix(name, "DD_") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// recorder is a slog.Handler that hands each record to the test as one line.
type recorder struct{ lines chan string }

func newRecorder() *recorder { return &recorder{make(chan string, 1024)} }

func (*recorder) Enabled(context.Context, slog.Level) bool { return true }
func (r *recorder) WithAttrs([]slog.Attr) slog.Handler     { return r }
func (r *recorder) WithGroup(string) slog.Handler          { return r }
func (r *recorder) Handle(_ context.Context, rec slog.Record) error {
	line := rec.Level.String() + " " + rec.Message
	rec.Attrs(func(a slog.Attr) bool {
		line += " " + a.String()
		return true
	})
	r.lines <- line
	return nil
}

// wait returns the next line with a text, and fails the test if there is none.
func (r *recorder) wait(t *testing.T, text string) string {
	t.Helper()
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		select {
		case l := <-r.lines:
			if strings.Contains(l, text) {
				return l
			}
		case <-late.C:
			t.Fatalf("no log line with %q", text)
		}
	}
}

// all returns the lines so far.
func (r *recorder) all() []string {
	var list []string
	for {
		select {
		case l := <-r.lines:
			list = append(list, l)
		default:
			return list
		}
	}
}

// shortDir returns a directory whose path leaves room for the name of a socket.
func shortDir(t *testing.T) string {
	t.Helper()
	d, err := os.MkdirTemp("", "mg")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(d) })
	return d
}
