package framework

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
)

// ReadyTimeout bounds every start.
const ReadyTimeout = 40 * time.Second

// ControlPlane is a meshgate process that has the APIs: run or standalone.
type ControlPlane struct {
	*Process
	Command  string
	StateDir string
	// Ports.
	Data, Diagnostics, Mesh, MeshTLS, Admin, AdminTLS, HTTP, HTTPS, Redis, Cloud, CloudTLS int
	// Args are further arguments.
	Args []string
	// Program is what is started; empty: [Binary].
	Program string
}

// NewControlPlane picks ports and a state directory; Start starts it.
func NewControlPlane(command string, args ...string) *ControlPlane {
	p := FreePorts(11)
	return &ControlPlane{
		Command: command, StateDir: ginkgo.GinkgoT().TempDir(), Args: args,
		Data: p[0], Diagnostics: p[1], Mesh: p[2], Admin: p[3], AdminTLS: p[4], HTTP: p[5], HTTPS: p[6], Redis: p[7], MeshTLS: p[8], Cloud: p[9], CloudTLS: p[10],
	}
}

// BinaryVariable is the environment variable that names another program to test,
// such as one that was built with the race detector.
const BinaryVariable = "MESHGATE_E2E_BINARY"

// Binary is the program under test.
func Binary() string {
	if path := os.Getenv(BinaryVariable); path != "" {
		return path
	}
	return filepath.Join(Root(), "bin", "meshgate")
}

// leaveSoon are the arguments of every proxy: no load balancer is there, and tests
// end many of them. Flags that follow win.
var leaveSoon = []string{"--drain-delay", "0s", "--drain-timeout", "10s"}

// Arguments are what the process is started with.
func (c *ControlPlane) Arguments() []string {
	a := []string{c.Command, "--state-dir", c.StateDir, "--log-level", "debug"}
	for flag, port := range map[string]int{
		"--data-plane-port": c.Data, "--diagnostics-port": c.Diagnostics, "--mesh-port": c.Mesh, "--mesh-tls-port": c.MeshTLS,
		"--admin-port": c.Admin, "--admin-tls-port": c.AdminTLS, "--redis-embedded-port": c.Redis,
		"--cloud-port": c.Cloud, "--cloud-tls-port": c.CloudTLS,
	} {
		a = append(a, flag, strconv.Itoa(port))
	}
	a = append(a, "--data-plane-listen", "127.0.0.1")
	if c.Command != "run" { // which has no gateway
		a = append(a, "--gateway-http-port", strconv.Itoa(c.HTTP), "--gateway-https-port", strconv.Itoa(c.HTTPS), "--gateway-listen", "127.0.0.1")
		a = append(a, leaveSoon...)
	}
	return append(a, c.Args...)
}

// Start starts the process and waits until it is ready.
func (c *ControlPlane) Start() *ControlPlane {
	c.Launch()
	c.WaitReady()
	return c
}

// Launch starts the process (again), without waiting for it.
func (c *ControlPlane) Launch() {
	endEnvoyOf(c.StateDir)
	c.Process = Start(nil, cmp.Or(c.Program, Binary()), c.Arguments()...)
}

// WaitReady waits until /ready answers 200.
func (c *ControlPlane) WaitReady() {
	gomega.Eventually(func() error {
		if !c.Running() {
			return gomega.StopTrying("the process has ended:\n" + c.Output())
		}
		return Ready(c.Diagnostics)
	}, ReadyTimeout, 50*time.Millisecond).Should(gomega.Succeed(), c.Output)
}

// prompt asks what answers at once or not at all: whoever polls could not give up
// while a question is open.
var prompt = &http.Client{Timeout: 5 * time.Second}

// Ready asks a diagnostics port.
func Ready(port int) error {
	resp, err := prompt.Get(fmt.Sprintf("http://127.0.0.1:%d/ready", port)) //nolint:noctx // bounded by the client
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("/ready answered %d", resp.StatusCode)
	}
	return nil
}

// AwaitReady waits, for programs that are no tests, until a process that they
// have started can work or has ended. A process that starts can only be asked
// again and again.
func AwaitReady(ctx context.Context, port int, ended <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(ctx, ReadyTimeout)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := Ready(port)
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ended:
			return fmt.Errorf("the process has ended: %w", err)
		case <-ctx.Done():
			return fmt.Errorf("not ready in %s: %w", ReadyTimeout, err)
		}
	}
}

// CAFile is the control plane's certificate authority.
func (c *ControlPlane) CAFile() string { return filepath.Join(c.StateDir, "ca.pem") }

// Gateway is a further oauth-gateway Envoy, run by meshgate dataplane.
type Gateway struct {
	*Process
	Name        string
	HTTP, HTTPS int
	StateDir    string
	// Program is what the next start runs; empty: [Binary].
	Program string
	args    []string
}

// Append gives the gateway further arguments for its next start. They win.
func (g *Gateway) Append(args ...string) { g.args = append(g.args, args...) }

// StartGateway enrols and starts a gateway at a control plane. Further arguments
// win over those that every gateway gets.
func StartGateway(c *ControlPlane, name string, more ...string) *Gateway {
	g := NewGateway(c, name, more...)
	g.Restart()
	return g
}

// NewGateway enrols a gateway and does not start it.
func NewGateway(c *ControlPlane, name string, more ...string) *Gateway {
	p := FreePorts(2)
	g := &Gateway{Name: name, HTTP: p[0], HTTPS: p[1], StateDir: ginkgo.GinkgoT().TempDir()}
	token := filepath.Join(g.StateDir, "token")
	c.API().WriteGatewayToken(name, token)
	g.args = append([]string{
		"dataplane", "--proxy-type", "oauth-gateway", "--cp-address", fmt.Sprintf("https://127.0.0.1:%d", c.Data),
		"--ca-cert-file", c.CAFile(), "--name", name, "--dataplane-token-file", token, "--state-dir", g.StateDir,
		"--gateway-listen", "127.0.0.1", "--gateway-http-port", strconv.Itoa(g.HTTP), "--gateway-https-port", strconv.Itoa(g.HTTPS),
		"--log-level", "debug",
	}, append(slices.Clone(leaveSoon), more...)...)
	return g
}

// Restart starts the gateway (again) and waits until it serves.
func (g *Gateway) Restart() {
	g.Launch()
	gomega.Eventually(func() error {
		resp, err := prompt.Get(fmt.Sprintf("http://127.0.0.1:%d/", g.HTTP)) //nolint:noctx // bounded by the client
		if err == nil {
			_ = resp.Body.Close()
		}
		return err
	}, ReadyTimeout, 50*time.Millisecond).Should(gomega.Succeed(), g.Output)
}

// Launch starts the gateway (again), without waiting for it.
func (g *Gateway) Launch() {
	endEnvoyOf(g.StateDir)
	g.Process = Start(nil, cmp.Or(g.Program, Binary()), g.args...)
}

// RunningEnvoy is the process id of the one Envoy below a state directory, or 0
// while there is none.
func RunningEnvoy(stateDir string) int {
	files, err := filepath.Glob(filepath.Join(stateDir, "run", "*", "envoy.pid"))
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	if len(files) != 1 {
		return 0
	}
	data, err := os.ReadFile(files[0])
	if err != nil {
		return 0
	}
	pid, _ := strconv.Atoi(string(data))
	return pid
}

// Envoys are the process ids of everything that runs with a file below a state
// directory in its arguments, but meshgate itself.
func Envoys(stateDir string) (pids []int) {
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	for _, f := range files {
		command, err := os.ReadFile(f)
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(f)))
		if err == nil && strings.Contains(string(command), stateDir+"/run/") && Alive(pid) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// endEnvoyOf ends, when the test is over and its supervisor is gone, an Envoy
// that was left behind because the test killed the supervisor.
func endEnvoyOf(stateDir string) {
	ginkgo.DeferCleanup(func() {
		pid := RunningEnvoy(stateDir)
		if pid == 0 || !Alive(pid) {
			return
		}
		command, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err == nil && strings.Contains(string(command), stateDir) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
}

// Alive reports whether a process runs. One that has ended but that nobody
// waited for does not.
func Alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z")
}
