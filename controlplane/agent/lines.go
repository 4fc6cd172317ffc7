package agent

import (
	"context"
	"path/filepath"
	"time"

	"github.com/meshgate/meshgate/controlplane/accesslogs"
	"github.com/meshgate/meshgate/controlplane/health"
	"github.com/meshgate/meshgate/controlplane/localsocket"
	"github.com/meshgate/meshgate/xds/logsink"
)

// logDirectory is the directory for access logs in the run directory.
const logDirectory = "access-logs"

// defaults of the rotation, for callers that set none.
const (
	defaultLogSize = 100 << 20
	defaultLogKeep = 5
)

// linesEvery is how often the trouble of access logs is looked at for readers of conditions: the
// number of lost lines changes without an event.
const linesEvery = time.Second

// newLines makes the receiver of access logs. Only sidecars have such logs.
func (a *Agent) newLines() {
	if a.Sidecar == nil {
		return
	}
	a.lineTrouble = make(chan struct{}, 1)
	o := accesslogs.Options{
		Directories: a.LogDirectories, MaxSize: a.AccessLog.MaxSize, Keep: a.AccessLog.Keep, Workers: a.Concurrency, Log: a.Log,
		Reaches: func(host string, port uint16) error { return a.machine().Reaches(host, port) },
		Changed: func() {
			select {
			case a.lineTrouble <- struct{}{}:
			default: // it will be looked at
			}
		},
	}
	if len(o.Directories) == 0 {
		o.Directories = []string{filepath.Join(a.dir.path, logDirectory)}
	}
	if o.MaxSize == 0 {
		o.MaxSize, o.Keep = defaultLogSize, defaultLogKeep
	}
	a.lines = accesslogs.New(o)
	a.conditions.Watch(conditionAccessLogs, linesEvery, func(context.Context) { a.judgeLines() })
}

// sinks tells the receiver where lines may go.
func (a *Agent) sinks(t logsink.Table) {
	if a.lines != nil {
		a.lines.Set(t)
	}
}

// judgeLines sets the condition of the access logs.
func (a *Agent) judgeLines() {
	reason, text := a.lines.Trouble()
	if reason == "" {
		a.conditions.Good(conditionAccessLogs)
		return
	}
	a.conditions.Set(conditionAccessLogs, health.Finding{State: health.Degraded, Reason: reason, Text: text})
}

// openLines opens the receiver of access logs, if there is one, so that Envoy finds it. It lives
// longer than Envoy, which logs while it drains.
func (a *Agent) openLines(ctx context.Context) (serve func(context.Context) error, err error) {
	if a.lines == nil {
		return func(context.Context) error { return nil }, nil
	}
	lis, err := localsocket.Listen(ctx, a.dir.logs)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		ended := make(chan error, 1)
		go func() { ended <- a.lines.Serve(ctx, lis) }()
		for {
			select {
			case err := <-ended:
				return err
			case <-a.lineTrouble:
				a.judgeLines()
			}
		}
	}, nil
}
