package framework

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
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
	args    []string
	process *Process
}

// StartRedis starts a redis-server without persistence on a free port. Further
// arguments are for the server.
func StartRedis(args ...string) *Redis {
	r := &Redis{Port: FreePorts(1)[0], dir: ginkgo.GinkgoT().TempDir(), args: args}
	r.Restart()
	return r
}

// Restart starts it again, empty, after Kill.
func (r *Redis) Restart() {
	_ = os.Remove(r.dump())
	r.start()
}

func (r *Redis) start() {
	r.process = Start(nil, "redis-server", append([]string{
		"--port", strconv.Itoa(r.Port), "--bind", "127.0.0.1",
		"--save", "", "--appendonly", "no", "--dir", r.dir,
	}, r.args...)...)
	gomega.Eventually(func() error {
		c, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", r.Port), time.Second)
		if err == nil {
			_ = c.Close()
		}
		return err
	}, 10*time.Second, 20*time.Millisecond).Should(gomega.Succeed())
}

// URL is how to reach it.
func (r *Redis) URL() string { return fmt.Sprintf("redis://127.0.0.1:%d", r.Port) }

// Flags tell a control plane to use it and to let proxies read it. Specs with users
// of their own say so themselves.
func (r *Redis) Flags() []string {
	return []string{"--redis-url", r.URL(), "--redis-node-url", r.URL()}
}

// dump is where the server keeps a snapshot of itself, and looks for one when it
// starts.
func (r *Redis) dump() string { return filepath.Join(r.dir, "dump.rdb") }

// Snapshot returns all that the server holds now, as the file that it would write.
func (r *Redis) Snapshot() []byte {
	r.Command("SAVE")
	data, err := os.ReadFile(r.dump())
	gomega.ExpectWithOffset(1, err).NotTo(gomega.HaveOccurred())
	return data
}

// Restore starts it again after Kill, with what it held at a snapshot.
func (r *Redis) Restore(snapshot []byte) {
	gomega.ExpectWithOffset(1, os.WriteFile(r.dump(), snapshot, 0o600)).To(gomega.Succeed())
	r.start()
}

// Command calls the server and returns its answer.
func (r *Redis) Command(words ...string) string {
	out, err := exec.Command("redis-cli", append([]string{"-p", strconv.Itoa(r.Port)}, words...)...).CombinedOutput()
	gomega.ExpectWithOffset(1, err).NotTo(gomega.HaveOccurred(), string(out))
	return strings.TrimSpace(string(out))
}

// Follow makes it a replica of another server, as Sentinel demotes a primary: its
// clients are dropped in the same transaction.
func (r *Redis) Follow(port int) {
	cmd := exec.Command("redis-cli", "-p", strconv.Itoa(r.Port))
	cmd.Stdin = strings.NewReader(fmt.Sprintf("MULTI\nREPLICAOF 127.0.0.1 %d\nCLIENT KILL TYPE normal\nEXEC\n", port))
	out, err := cmd.CombinedOutput()
	gomega.ExpectWithOffset(1, err).NotTo(gomega.HaveOccurred(), string(out))
}

// Kill ends it at once.
func (r *Redis) Kill() { r.process.Kill() }

// Pause stops it without closing its connections: nothing answers any more.
func (r *Redis) Pause() { r.process.Signal(syscall.SIGSTOP) }

// Resume lets it go on.
func (r *Redis) Resume() { r.process.Signal(syscall.SIGCONT) }

// User adds a user with a password equal to its name, and returns the URL for it.
func (r *Redis) User(name string, rules ...string) string {
	args := append([]string{"-p", strconv.Itoa(r.Port), "ACL", "SETUSER", name, "on", ">" + name}, rules...)
	out, err := exec.Command("redis-cli", args...).CombinedOutput()
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	gomega.Expect(strings.TrimSpace(string(out))).To(gomega.Equal("OK"))
	return fmt.Sprintf("redis://%s:%s@127.0.0.1:%d", name, name, r.Port)
}

// Calls is how often a command was called since the server started.
func (r *Redis) Calls(command string) int {
	out, err := exec.Command("redis-cli", "-p", strconv.Itoa(r.Port), "INFO", "commandstats").Output()
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	for line := range strings.Lines(string(out)) {
		if rest, ok := strings.CutPrefix(line, "cmdstat_"+command+":calls="); ok {
			n, err := strconv.Atoi(strings.SplitN(rest, ",", 2)[0])
			gomega.Expect(err).NotTo(gomega.HaveOccurred())
			return n
		}
	}
	return 0
}
