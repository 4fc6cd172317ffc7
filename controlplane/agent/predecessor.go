package agent

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// EndPredecessor stops an Envoy that a supervisor which died left behind: it
// would hold the ports and serve an old configuration for ever. Only a process
// that runs with the bootstrap file of this instance is touched. The caller
// holds the claim on the state directory, so its supervisor is known to be dead.
func EndPredecessor(ctx context.Context, stateDir, name string, timeout time.Duration, log *slog.Logger) error {
	d, err := runDirOf(stateDir, name)
	if err != nil {
		return err
	}
	data, err := os.ReadFile(d.pid)
	if err != nil {
		return nil
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil || pid <= 1 {
		return nil
	}
	// The descriptor pins the process, so the id cannot be reused in between.
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil
	}
	defer func() { _ = unix.Close(fd) }()
	cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil || !strings.Contains(string(cmdline), "\x00"+d.bootstrap+"\x00") {
		return nil
	}
	log.Warn("an envoy of a supervisor that died is drained and stopped", "pid", pid)
	leaving := draining{Drain: Drain{Timeout: timeout}, admin: d.adminClient(), log: log}
	leaving.run(ctx)
	if err := unix.PidfdSendSignal(fd, unix.SIGTERM, nil, 0); err != nil {
		return nil
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

// exited waits until the process behind a pidfd has ended.
func exited(fd int, timeout time.Duration) bool {
	deadline := time.Now().Add(timeout)
	for {
		left := time.Until(deadline)
		if left <= 0 {
			return false
		}
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(left.Milliseconds())+1) //nolint:gosec // descriptors are small
		if err == syscall.EINTR {                                                                            //nolint:errorlint // a raw errno
			continue
		}
		return err == nil && n > 0
	}
}
