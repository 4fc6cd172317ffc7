package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/meshgate/meshgate/filter/contract"
)

// Pauses between restarts of a dying Envoy. An Envoy that ran longer than steadyLife resets
// the pause to firstPause.
const (
	firstPause = 100 * time.Millisecond
	maxPause   = 5 * time.Second
	steadyLife = 30 * time.Second
	killAfter  = 5 * time.Second
)

// flushLogs is how long, in milliseconds, Envoy may buffer lines of the access log. Its
// default of 10 s is long for an operator who waits for a line.
const flushLogs = "1000"

// Process describes the Envoy to run.
type Process struct {
	// Path of the binary.
	Path string
	// Bootstrap is the path of the bootstrap file.
	Bootstrap string
	// ModuleDir is where libmeshgate.so is.
	ModuleDir string
	// Settings is the path of the filter's settings.
	Settings string
	// PIDFile holds the process id of the running Envoy. It is for people, and for the next
	// supervisor if that cannot read the name in Envoy's environment.
	PIDFile string
	// Concurrency is the number of workers; 0 lets Envoy choose.
	Concurrency int
	// LogLevel is the log level of Envoy.
	LogLevel string
	// Access gets Envoy's standard output, which is the access log. If it is nil, standard
	// output is treated as Envoy's log.
	Access io.Writer
	// Drain says how Envoy is ended.
	Drain Drain
	// Passing says that Envoy passes connections on, so that a drain waits for their end.
	Passing bool
	// Withdraw, if set, is called before Envoy is drained. It must return within a bounded
	// time and when its context ends.
	Withdraw func(context.Context)
	// Replaced is how long connections of a replaced listener may live.
	Replaced time.Duration
	// Abort, when closed, ends a drain and kills Envoy at once. It may be nil.
	Abort <-chan struct{}
	// Admin talks to Envoy's admin interface.
	Admin *Admin
	Log   *slog.Logger
	// Processes remembers which Envoys were started. If it is nil, nothing is remembered.
	Processes *processes
	// Empty says that this Envoy has no filter, because it asks an authorization service.
	Empty bool
	// Env overrides environment variables that Envoy inherits, for tests.
	Env []string

	restarts atomic.Int64
	pid      atomic.Int64
	leaving  atomic.Bool
	// ending is set before Envoy is told to end.
	ending atomic.Bool
	// access writes to Access, for all Envoys. Only Run uses it.
	access *accessWriter
}

func (p *Process) accessWriter() *accessWriter {
	if p.access == nil {
		p.access = &accessWriter{log: p.Log, to: p.Access}
	}
	return p.access
}

// Restarts counts how often Envoy ended unexpectedly.
func (p *Process) Restarts() int64 { return p.restarts.Load() }

// PID returns the process id of the running Envoy, or 0.
func (p *Process) PID() int { return int(p.pid.Load()) }

// Leaving reports whether Envoy drains, or has been drained.
func (p *Process) Leaving() bool { return p.leaving.Load() }

// Run keeps Envoy running until ctx ends, then drains and stops it. It returns an error
// only if Envoy cannot be started at all.
func (p *Process) Run(ctx context.Context) error {
	pause := firstPause
	for first := true; ; first = false {
		started := time.Now()
		err := p.once(ctx)
		if ctx.Err() != nil {
			return nil
		}
		var refused *exec.Error
		if first && (errors.As(err, &refused) || errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission)) {
			return fmt.Errorf("start Envoy: %w", err)
		}
		if time.Since(started) > steadyLife {
			pause = firstPause
		}
		p.restarts.Add(1)
		p.Log.Error("envoy ended unexpectedly and is restarted", "error", err, "pause", pause)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
		pause = min(pause*2, maxPause)
	}
}

// args returns Envoy's arguments. Hot restart is off, because two Envoys on one machine
// would use the same shared memory.
func (p *Process) args() []string {
	a := []string{
		"-c", p.Bootstrap, "--disable-hot-restart", "-l", p.LogLevel,
		"--log-format", logFormat, "--file-flush-interval-msec", flushLogs, "--drain-strategy", "immediate",
		"--drain-time-s", strconv.Itoa(max(1, int(p.Replaced.Seconds()))),
	}
	if p.Concurrency > 0 {
		a = append(a, "--concurrency", strconv.Itoa(p.Concurrency))
	}
	return a
}

// once runs Envoy until it dies, or until ctx ends and it has been drained.
func (p *Process) once(ctx context.Context) error {
	cmd := exec.Command(p.Path, p.args()...) //nolint:gosec // the operator names the binary
	cmd.Env = append(p.environment(),
		"ENVOY_DYNAMIC_MODULES_SEARCH_PATH="+p.ModuleDir, contract.SettingsEnv+"="+p.Settings)
	ended, err := p.register(cmd)
	if err != nil {
		return err
	}
	defer ended()
	// Envoy gets its own process group. So an interrupt typed at the terminal reaches only
	// the supervisor, which then drains Envoy.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	logs, err := p.pipeLogs(cmd)
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		logs.abandon()
		return err
	}
	p.pid.Store(int64(cmd.Process.Pid))
	if err := os.WriteFile(p.PIDFile, []byte(strconv.Itoa(cmd.Process.Pid)), 0o600); err != nil {
		p.Log.Warn("cannot write the pid file of envoy", "error", err)
	}
	logs.follow() // whoever reads a line of Envoy finds its process
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	select {
	case err = <-exited:
	case <-ctx.Done():
		err = p.stop(cmd, exited)
	}
	p.pid.Store(0)
	logs.wait()
	_ = os.Remove(p.PIDFile)
	if err == nil && ctx.Err() == nil {
		err = errors.New("exit status 0")
	}
	return err
}

// register gives an Envoy that is about to be started its name. The caller calls ended when
// the process has ended.
func (p *Process) register(cmd *exec.Cmd) (ended func(), err error) {
	if p.Processes == nil {
		return func() {}, nil
	}
	begin := p.Processes.begin
	if p.Empty {
		begin = p.Processes.beginEmpty
	}
	name, err := begin()
	if err != nil {
		return nil, err
	}
	cmd.Env = append(cmd.Env, contract.ProcessEnv+"="+name)
	return func() {
		if err := p.Processes.end(name); err != nil {
			p.Log.Warn("the end of envoy cannot be noted", "error", err)
		}
	}, nil
}

// stop drains Envoy, then ends it.
func (p *Process) stop(cmd *exec.Cmd, exited <-chan error) error {
	p.leaving.Store(true)
	p.Log.Info("envoy is draining", "after", p.Drain.Delay, "at_most", p.Drain.Timeout)
	drained := make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	d := draining{Drain: p.Drain, admin: p.Admin, log: p.Log, passing: p.Passing}
	go func() {
		defer close(drained)
		if p.Withdraw != nil {
			p.Withdraw(ctx)
		}
		d.run(ctx)
	}()
	select {
	case err := <-exited:
		cancel()
		<-drained
		return err
	case <-p.Abort:
		cancel()
		<-drained
		reportCut(p.Admin, p.Log)
		_ = cmd.Process.Kill()
		return <-exited
	case <-drained:
	}
	p.Log.Info("envoy has drained", "connections_left", d.last.connections)
	p.ending.Store(true)
	_ = cmd.Process.Signal(syscall.SIGTERM)
	select {
	case err := <-exited:
		return err
	case <-p.Abort:
		_ = cmd.Process.Kill()
		return <-exited
	case <-time.After(killAfter):
		p.Log.Warn("envoy did not stop and is killed")
		_ = cmd.Process.Kill()
		return <-exited
	}
}
