package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// EndPredecessor stops an Envoy that a dead supervisor has left behind. Such an Envoy would
// hold the ports and serve an old configuration for ever. It is recognised by its name,
// which was stored before it was started, so none is missed whenever its supervisor died.
// Names are random, so no other process is touched. The caller holds the claim on the state
// directory. So the supervisor is known to be dead, and no child of it is about to become
// an Envoy, because that child would hold the claim, too.
//
// The kernel could end an Envoy together with its supervisor (PR_SET_PDEATHSIG). That would
// cut off every request because the supervisor died, while a new supervisor can take over
// without loss. Moreover the kernel does it when the thread ends that started Envoy; in Go
// that may be any thread, which may end at any time.
func EndPredecessor(ctx context.Context, stateDir, name string, timeout time.Duration, log *slog.Logger) error {
	d, err := runDirOf(stateDir, name)
	if err != nil {
		return err
	}
	left, err := d.left()
	if err != nil {
		return err
	}
	for _, pid := range left {
		if err := d.endLeft(ctx, pid, timeout, log); err != nil {
			return err
		}
	}
	return nil
}

// left finds the processes that may be Envoys of this run directory: those with one of its
// names, and the process that was started last, whose environment may be unreadable.
func (d *runDir) left() (pids []int, err error) {
	known, err := readProcesses(d.processes)
	if err != nil {
		return nil, err
	}
	run, err := running()
	if err != nil {
		return nil, err
	}
	for _, k := range known {
		if pid, runs := run[k.Name]; runs {
			pids = append(pids, pid)
		}
	}
	if data, err := os.ReadFile(d.pid); err == nil {
		pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
		if err == nil && pid > 1 && !slices.Contains(pids, pid) {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// owns reports whether a process is an Envoy of this run directory. If the binary has
// capabilities, such as the one to open port 80, only root can read the environment of its
// process. The arguments then show what it is.
func (d *runDir) owns(pid int) bool {
	name, err := nameOf(pid)
	if errors.Is(err, fs.ErrPermission) {
		arguments, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		return err == nil && strings.Contains(string(arguments), "\x00"+d.bootstrap+"\x00")
	}
	known, _ := readProcesses(d.processes)
	return err == nil && slices.ContainsFunc(known, func(k process) bool { return k.Name == name })
}

// endLeft drains and stops a process if it is an Envoy of this run directory.
func (d *runDir) endLeft(ctx context.Context, pid int, timeout time.Duration, log *slog.Logger) error {
	// The descriptor pins the process, so its id cannot be reused in the meantime.
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil //nolint:nilerr // it has ended
	}
	defer func() { _ = unix.Close(fd) }()
	if !d.owns(pid) {
		return nil
	}
	log.Warn("an envoy of a supervisor that died is drained and stopped", "pid", pid)
	leaving := draining{
		Drain: Drain{Timeout: timeout}, admin: d.adminClient(), log: log, gone: func() bool { return exited(fd, 0) },
	}
	leaving.run(ctx)
	if err := unix.PidfdSendSignal(fd, unix.SIGTERM, nil, 0); err != nil {
		return nil //nolint:nilerr // it has ended
	}
	if exited(fd, killAfter) {
		return nil
	}
	_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	if !exited(fd, killAfter) {
		return fmt.Errorf("the envoy with pid %d cannot be stopped", pid)
	}
	return nil
}

// exited waits until the process of a pidfd has ended. It returns false on timeout.
func exited(fd int, timeout time.Duration) bool {
	deadline := time.Now().Add(timeout)
	for {
		left := max(0, time.Until(deadline))
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(left.Milliseconds())) //nolint:gosec // descriptors are small
		if err == syscall.EINTR {                                                                          //nolint:errorlint // a raw errno
			continue
		}
		return err == nil && n > 0
	}
}
