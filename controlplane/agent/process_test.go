package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/filter/contract"
)

// newProcess returns this binary in a role, as the Envoy of a run directory.
func newProcess(t *testing.T, role string) (*Process, *recorder) {
	t.Helper()
	_, d := newRunDir(t)
	r := newRecorder()
	return &Process{
		Path: os.Args[0], Bootstrap: d.bootstrap, ModuleDir: "/modules", Settings: d.settings, PIDFile: d.pid,
		Concurrency: 2, LogLevel: "warning", Drain: Drain{Timeout: 1500 * time.Millisecond}, Replaced: 1500 * time.Millisecond,
		Admin: NewAdmin(d.admin), Log: slog.New(r), Env: []string{roleEnv + "=" + role},
	}, r
}

// run runs p in the background; the returned function stops it.
func run(t *testing.T, p *Process) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	stopped := false
	stop = func() error {
		stopped = true
		cancel()
		return <-ended
	}
	t.Cleanup(func() {
		if !stopped {
			_ = stop()
		}
	})
	return stop
}

// TestProcessArguments checks the arguments of a started Envoy.
func TestProcessArguments(t *testing.T) {
	p, r := newProcess(t, "envoy")
	stop := run(t, p)
	got := r.wait(t, "args")
	for _, arg := range []string{`"-c" "` + p.Bootstrap + `"`, `"--disable-hot-restart"`, `"-l" "warning"`, `"--concurrency" "2"`, `"--drain-time-s" "1"`} {
		if !strings.Contains(got, arg) {
			t.Errorf("no %s in %s", arg, got)
		}
	}
	if got := r.wait(t, "env "); !strings.Contains(got, "/modules "+p.Settings) {
		t.Errorf("environment %q", got)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// TestProcessKnowsNoSettings: Envoy handles untrusted traffic and does not get the settings
// in this process's environment, which include passwords and keys.
func TestProcessKnowsNoSettings(t *testing.T) {
	t.Setenv("MESHGATE_STORE_ENCRYPTION_KEY", "canary")
	t.Setenv("MESHGATE_REDIS_URL", "redis://:canary@127.0.0.1")
	t.Setenv("Meshgate_admin_token", "canary")
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=canary")
	t.Setenv("DD_SERVICE", "canary")
	t.Setenv("GOMEMLIMIT", "1GiB") // the filter uses it, too
	t.Setenv(contract.RememberEnv, "false")
	t.Setenv(contract.RememberEnv+"_PASSWORD", "canary")
	p, r := newProcess(t, "envoy")
	stop := run(t, p)
	if got, want := r.wait(t, "settings "), fmt.Sprintf("%q", []string{roleEnv, contract.RememberEnv, "MESHGATE_FILTER_SETTINGS"}); !strings.Contains(got, want) {
		t.Errorf("%s, want %s", got, want)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if !slices.Contains(p.environment(), "GOMEMLIMIT=1GiB") {
		t.Error("what is nobody's secret does not reach the filter")
	}
}

// TestProcessRestarts: an Envoy that dies is restarted and counted.
func TestProcessRestarts(t *testing.T) {
	p, r := newProcess(t, "crash")
	stop := run(t, p)
	r.wait(t, "ERROR envoy: cannot go on logger=main")
	if got := r.wait(t, "envoy ended unexpectedly"); got != "ERROR envoy ended unexpectedly and is restarted error=exit status 3 pause=100ms" {
		t.Error(got)
	}
	if got := r.wait(t, "envoy ended unexpectedly"); !strings.Contains(got, "pause=200ms") {
		t.Error(got)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if p.Restarts() < 2 || p.PID() != 0 {
		t.Errorf("%d restarts, pid %d", p.Restarts(), p.PID())
	}
}

// TestProcessStops: a stop drains Envoy, ends it, and leaves no pid file behind.
func TestProcessStops(t *testing.T) {
	p, r := newProcess(t, "envoy")
	f := &fakeAdmin{}
	p.Admin, p.Drain.Timeout = f.serve(t), patience // which is not over before Envoy has drained
	stop := run(t, p)
	r.wait(t, "envoy: up")
	pid, err := os.ReadFile(p.PIDFile)
	if err != nil || p.PID() == 0 || string(pid) != strconv.Itoa(p.PID()) {
		t.Errorf("pid file %q (%v), pid %d", pid, err, p.PID())
	}
	if got := mode(t, p.PIDFile); got != 0o600 {
		t.Errorf("the pid file has %o", got)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	question := "GET " + trafficPath
	if diff := cmp.Diff([]string{question, "POST /healthcheck/fail", question, "POST /drain_listeners", question}, f.asked); diff != "" {
		t.Error(diff)
	}
	if _, err := os.Stat(p.PIDFile); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the pid file is still there: %v", err)
	}
	if p.Restarts() != 0 || p.PID() != 0 {
		t.Errorf("%d restarts, pid %d", p.Restarts(), p.PID())
	}
}

// TestProcessCannotStart: a wrong path is reported at once instead of retried.
func TestProcessCannotStart(t *testing.T) {
	for _, path := range []string{filepath.Join(t.TempDir(), "envoy"), "no-such-envoy-in-path", t.TempDir()} {
		p, _ := newProcess(t, "crash")
		p.Path = path
		if err := p.Run(t.Context()); err == nil || !strings.HasPrefix(err.Error(), "start Envoy: ") {
			t.Errorf("%s: %v", path, err)
		}
	}
}
