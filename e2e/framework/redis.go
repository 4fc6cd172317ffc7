package framework

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
)

// Redis is a real redis-server that can be hurt.
type Redis struct {
	Port    int
	dir     string
	file    []string // of its configuration, or none
	args    []string
	process *Process
}

// StartRedisFrom starts one with a configuration file, and a free port beside
// those that it names.
func StartRedisFrom(file string) *Redis {
	r := &Redis{Port: FreePorts(1)[0], dir: ginkgo.GinkgoT().TempDir(), file: []string{file}}
	r.Restart()
	return r
}

// StartRedis starts a redis-server without persistence on a free port, with
// further arguments.
func StartRedis(args ...string) *Redis {
	r := &Redis{Port: FreePorts(1)[0], dir: ginkgo.GinkgoT().TempDir(), args: args}
	r.Restart()
	return r
}

// Restart starts it again, empty, after Kill.
func (r *Redis) Restart() {
	r.process = Start(nil, "redis-server", slices.Concat(r.file, []string{"--port", strconv.Itoa(r.Port), "--bind", "127.0.0.1",
		"--save", "", "--appendonly", "no", "--dir", r.dir}, r.args)...)
	gomega.Eventually(func() error {
		c, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", r.Port), time.Second)
		if err == nil {
			_ = c.Close()
		}
		return err
	}, settling, 20*time.Millisecond).Should(gomega.Succeed())
}

// Save returns an image of what it holds.
func (r *Redis) Save() []byte {
	gomega.Expect(r.CLI("SAVE")).To(gomega.Equal("OK"))
	file := filepath.Join(r.dir, "dump.rdb")
	image, err := os.ReadFile(file)
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	gomega.Expect(os.Remove(file)).To(gomega.Succeed())
	return image
}

// RestartFrom starts it again, after Kill, with an image of [Redis.Save].
func (r *Redis) RestartFrom(image []byte) {
	file := filepath.Join(r.dir, "dump.rdb")
	gomega.Expect(os.WriteFile(file, image, 0o600)).To(gomega.Succeed())
	r.Restart()
	gomega.Eventually(func() string { return r.tryCLI("PING") }, settling, 20*time.Millisecond).Should(gomega.Equal("PONG"))
	gomega.Expect(os.Remove(file)).To(gomega.Succeed())
}

// URL is how to reach it.
func (r *Redis) URL() string { return fmt.Sprintf("redis://127.0.0.1:%d", r.Port) }

// Flags tell a control plane to use it and to let proxies read it. Specs with users
// of their own say so themselves.
func (r *Redis) Flags() []string {
	return []string{"--redis-url", r.URL(), "--redis-node-url", r.URL()}
}

// Kill ends it at once.
func (r *Redis) Kill() { r.process.Kill() }

// Pause stops it without closing its connections: nothing answers any more.
func (r *Redis) Pause() { r.process.Signal(syscall.SIGSTOP) }

// Resume lets it go on.
func (r *Redis) Resume() { r.process.Signal(syscall.SIGCONT) }

// User adds a user with a password equal to its name, and returns the URL for it.
func (r *Redis) User(name string, rules ...string) string {
	gomega.Expect(r.CLI(append([]string{"ACL", "SETUSER", name, "on", ">" + name}, rules...)...)).To(gomega.Equal("OK"))
	return fmt.Sprintf("redis://%s:%s@127.0.0.1:%d", name, name, r.Port)
}

// Calls is how often a command was called since the server started.
func (r *Redis) Calls(command string) int {
	for line := range strings.Lines(r.CLI("INFO", "commandstats")) {
		if rest, ok := strings.CutPrefix(line, "cmdstat_"+command+":calls="); ok {
			n, err := strconv.Atoi(strings.SplitN(rest, ",", 2)[0])
			gomega.Expect(err).NotTo(gomega.HaveOccurred())
			return n
		}
	}
	return 0
}

// CLI runs one command as the default user and returns what redis-cli prints.
func (r *Redis) CLI(args ...string) string {
	out, err := exec.Command("redis-cli", append([]string{"-p", strconv.Itoa(r.Port)}, args...)...).CombinedOutput()
	gomega.ExpectWithOffset(1, err).NotTo(gomega.HaveOccurred(), string(out))
	return strings.TrimSpace(string(out))
}

// tryCLI is CLI for a server that may not be ready: a failure is part of what is
// returned.
func (r *Redis) tryCLI(args ...string) string {
	out, err := exec.Command("redis-cli", append([]string{"-p", strconv.Itoa(r.Port)}, args...)...).CombinedOutput()
	if err != nil {
		return err.Error() + ": " + string(out)
	}
	return strings.TrimSpace(strings.ReplaceAll(string(out), "\r", ""))
}

// Reads is how many values were read since the server started.
func (r *Redis) Reads() int { return r.Calls("get") + r.Calls("getrange") }
