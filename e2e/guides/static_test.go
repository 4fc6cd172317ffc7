package guides_test

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

// staticPorts are the ports of the static example.
var staticPorts = []string{"8000", "6379", "8080", "9901"}

// staticExample is envoy.yaml with other ports, the blocks of commands in its
// comment, and the ports by those that the file names.
func staticExample() (config string, blocks []string, ports map[string]string) {
	data, err := os.ReadFile(filepath.Join(framework.Root(), "envoy.yaml"))
	Expect(err).NotTo(HaveOccurred())
	config, ports = string(data), map[string]string{}
	for i, free := range framework.FreePorts(len(staticPorts)) {
		ports[staticPorts[i]] = strconv.Itoa(free)
	}
	config = regexp.MustCompile(`\b(`+strings.Join(staticPorts, "|")+`)\b`).ReplaceAllStringFunc(config, func(p string) string { return ports[p] })
	block := ""
	for line := range strings.Lines(config) {
		text, inside := strings.CutPrefix(line, "#   ")
		if inside {
			block += text
		} else if block != "" {
			blocks, block = append(blocks, block), ""
		}
	}
	return config, blocks, ports
}

var _ = Describe("envoy.yaml", func() {
	It("can be followed by copy and paste", func() {
		config, blocks, ports := staticExample()
		Expect(blocks).To(HaveLen(3), "to run it, to add a token, to take it back")
		// The library is built into a directory of its own: Envoys of others have
		// that of the checkout mapped.
		dir := GinkgoT().TempDir()
		for _, name := range []string{"go.mod", "go.sum", "filter"} {
			copied := framework.Start(nil, "cp", "-r", filepath.Join(framework.Root(), name), dir)
			Expect(copied.Exit(patience)).To(Equal(0), copied.Output())
		}
		for _, name := range []string{".ci", ".tools"} {
			Expect(os.Symlink(filepath.Join(framework.Root(), name), filepath.Join(dir, name))).To(Succeed())
		}
		Expect(os.WriteFile(filepath.Join(dir, "envoy.yaml"), []byte(config), 0o600)).To(Succeed())
		// Only ports differ; that of Redis is not in its commands, where it is the usual one.
		const preamble = "set -euo pipefail\ncd \"$DIR\"\nredis-cli() { command redis-cli -p \"$REDIS\" \"$@\"; }\ncurl() { command curl \"$@\"; echo; }\n"
		env := []string{"DIR=" + dir, "REDIS=" + ports["6379"]}
		shell := func(script string) *framework.Process {
			return framework.Start(env, "bash", "-c", preamble+script)
		}
		DeferCleanup(func() {
			Expect(exec.Command("redis-cli", "-p", ports["6379"], "shutdown", "nosave").Run()).To(Succeed())
		})
		// The last command runs until it is ended, so that the next ones are for another
		// shell.
		first := shell(`trap 'kill $(jobs -p); wait' EXIT` + "\ntrap 'exit 0' TERM\n" + strings.TrimSuffix(blocks[0], "\n") + " &\nwait -n\n")
		// Before Envoy begins the library is built.
		for _, port := range []string{"8000", "6379", "8080"} {
			Eventually(func() error {
				if !first.Running() {
					return StopTrying("it has ended")
				}
				conn, err := net.DialTimeout("tcp", "127.0.0.1:"+ports[port], time.Second)
				if err == nil {
					_ = conn.Close()
				}
				return err
			}, patience, 50*time.Millisecond).Should(Succeed(), first.Output)
		}

		request := blocks[1][strings.LastIndex(blocks[1], "curl "):]
		second := shell(request + blocks[1] + blocks[2] + request)
		Expect(second.Exit(patience)).To(Equal(0), second.Output())
		Expect(regexp.MustCompile(`(?m)^(HTTP/1\.1 \d+|OK|\d+\r?$)`).FindAllString(second.Output(), -1)).To(Equal([]string{
			"HTTP/1.1 401", "OK", "HTTP/1.1 200", "1", "HTTP/1.1 401",
		}), second.Output()+first.Output())
		Expect(first.Running()).To(BeTrue(), first.Output())
	})
})
