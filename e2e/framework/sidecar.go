package framework

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
)

// EnvoyVariable names the environment variable with the path of an Envoy other
// than the one beside the program.
const EnvoyVariable = "MESHGATE_E2E_ENVOY"

// Sidecar is the Envoy of a dataplane, run by meshgate dataplane.
type Sidecar struct {
	*Process
	Mesh, Name string
	StateDir   string
	// Envoy is an Envoy other than the one beside the program, if set.
	Envoy string
	args  []string
}

// NewSidecar prepares the sidecar of a dataplane that exists or that file
// describes (a file with the document; may be empty). It gets a token of its own.
func NewSidecar(c *ControlPlane, mesh, name, file string, more ...string) *Sidecar {
	s := &Sidecar{Mesh: mesh, Name: name, StateDir: shortDir(), Envoy: os.Getenv(EnvoyVariable)}
	s.WriteToken(c.API().DataplaneToken(mesh, name, "24h"))
	s.args = append([]string{
		"dataplane", "--proxy-type", "sidecar", "--cp-address", fmt.Sprintf("https://127.0.0.1:%d", c.Data), "--ca-cert-file", c.CAFile(),
		"--mesh", mesh, "--name", name, "--dataplane-token-file", s.TokenFile(), "--state-dir", s.StateDir, "--log-level", "debug",
		"--envoy-concurrency", "1",
	}, append(slices.Clone(leaveSoon), more...)...)
	if file != "" {
		s.args = append(s.args, "--dataplane-file", file)
	}
	return s
}

// shortDir is a directory below which the path of a Unix socket fits, however long
// the name of the spec is.
func shortDir() string {
	dir, err := os.MkdirTemp("", "sidecar")
	gomega.ExpectWithOffset(2, err).NotTo(gomega.HaveOccurred())
	ginkgo.DeferCleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// Start starts the sidecar (again), without waiting for it.
func (s *Sidecar) Start() *Sidecar {
	endEnvoyOf(s.StateDir)
	args := s.args
	if s.Envoy != "" {
		args = append(args[:len(args):len(args)], "--envoy-path", s.Envoy)
	}
	s.Process = Start(nil, Binary(), args...)
	return s
}

// execAs runs a program as a user, which owns the files that it is to write.
const execAs = `import os, sys
uid = int(sys.argv[1])
for d, _, files in os.walk(sys.argv[2]):
    for name in [d] + [os.path.join(d, f) for f in files]:
        os.lchown(name, uid, uid)
os.setgroups([]); os.setgid(uid); os.setuid(uid)
os.execv(sys.argv[3], sys.argv[3:])`

// StartAs starts the sidecar as a user of this machine, who cannot read the state directory of
// the control plane. Only root can do that.
func (s *Sidecar) StartAs(uid int) *Sidecar {
	args := slices.Clone(s.args)
	ca := &args[slices.Index(args, "--ca-cert-file")+1]
	pem, err := os.ReadFile(*ca)
	gomega.ExpectWithOffset(1, err).NotTo(gomega.HaveOccurred())
	*ca = filepath.Join(s.StateDir, "ca.pem")
	gomega.ExpectWithOffset(1, os.WriteFile(*ca, pem, 0o600)).To(gomega.Succeed())
	if s.Envoy != "" {
		args = append(args[:len(args):len(args)], "--envoy-path", s.Envoy)
	}
	s.Process = Start(nil, "python3", append([]string{"-c", execAs, strconv.Itoa(uid), s.StateDir, Binary()}, args...)...)
	return s
}

// TokenFile is where the sidecar reads its token.
func (s *Sidecar) TokenFile() string { return filepath.Join(s.StateDir, "token") }

// WriteToken replaces the token that the sidecar presents from now on.
func (s *Sidecar) WriteToken(token string) {
	next := s.TokenFile() + ".new"
	gomega.ExpectWithOffset(1, os.WriteFile(next, []byte(token), 0o600)).To(gomega.Succeed())
	gomega.ExpectWithOffset(1, os.Rename(next, s.TokenFile())).To(gomega.Succeed())
}

// Token is what the sidecar presents.
func (s *Sidecar) Token() string {
	data, err := os.ReadFile(s.TokenFile())
	gomega.ExpectWithOffset(1, err).NotTo(gomega.HaveOccurred())
	return string(data)
}

// Admin asks Envoy's admin interface on its Unix socket.
func (s *Sidecar) Admin(path string) (string, error) { return EnvoyAdmin(s.StateDir, path) }

// EnvoyAdmin asks the admin interface of the one Envoy that has its run directory below a
// state directory.
func EnvoyAdmin(stateDir, path string) (string, error) {
	sockets, err := filepath.Glob(filepath.Join(stateDir, "run", "*", "admin.sock"))
	if err != nil || len(sockets) != 1 {
		return "", fmt.Errorf("%d admin sockets below %s", len(sockets), stateDir)
	}
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", sockets[0])
		},
	}}
	r, err := Do(client, http.MethodGet, "http://envoy"+path, nil, "")
	switch {
	case err != nil:
		return "", err
	case r.Status != http.StatusOK:
		return r.Body, fmt.Errorf("%s answered %d: %s", path, r.Status, r.Body)
	}
	return r.Body, nil
}

// WaitReady waits until Envoy has its first configuration.
func (s *Sidecar) WaitReady() {
	gomega.EventuallyWithOffset(1, func() error {
		if !s.Running() {
			return gomega.StopTrying("the process has ended:\n" + s.Output())
		}
		_, err := s.Admin("/ready")
		return err
	}, ReadyTimeout, 20*time.Millisecond).Should(gomega.Succeed(), s.Output)
}

// Stats reads all counters and gauges of Envoy.
func (s *Sidecar) Stats() map[string]int {
	text, err := s.Admin("/stats")
	gomega.ExpectWithOffset(1, err).NotTo(gomega.HaveOccurred())
	return ParseStats(text)
}

// ParseStats reads what Envoy's administration interface answers at /stats.
func ParseStats(text string) map[string]int {
	stats := map[string]int{}
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), ": "); ok {
			if n, err := strconv.Atoi(value); err == nil {
				stats[key] = n
			}
		}
	}
	return stats
}

// Stat reads one counter or gauge of Envoy; 0 for one that does not exist.
func (s *Sidecar) Stat(name string) int { return s.Stats()[name] }

// WaitServing waits until an address accepts connections.
func WaitServing(address string, output func() string) {
	gomega.EventuallyWithOffset(1, func() error {
		conn, err := net.DialTimeout("tcp", address, time.Second)
		if err == nil {
			_ = conn.Close()
		}
		return err
	}, ReadyTimeout, 50*time.Millisecond).Should(gomega.Succeed(), output)
}

// NewIngress prepares the ingress of a zone that exists or that file describes. It gets a token of
// the zone. It may lead to this machine, where all instances of tests are.
func NewIngress(c *ControlPlane, zone, name, file string, more ...string) *Sidecar {
	return newZoneProxy(c, "ingress", zone, name, file, more...)
}

// NewEgress prepares an egress of a zone, as NewIngress does an ingress.
func NewEgress(c *ControlPlane, zone, name, file string, more ...string) *Sidecar {
	return newZoneProxy(c, "egress", zone, name, file, more...)
}

func newZoneProxy(c *ControlPlane, proxyType, zone, name, file string, more ...string) *Sidecar {
	s := &Sidecar{Name: name, StateDir: shortDir(), Envoy: os.Getenv(EnvoyVariable)}
	s.WriteToken(c.API().ZoneToken(zone, proxyType))
	s.args = append([]string{
		"dataplane", "--proxy-type", proxyType, "--cp-address", fmt.Sprintf("https://127.0.0.1:%d", c.Data), "--ca-cert-file", c.CAFile(),
		"--name", name, "--dataplane-token-file", s.TokenFile(), "--state-dir", s.StateDir, "--log-level", "debug", "--envoy-concurrency", "1",
		"--workload-address", "127.0.0.0/8",
	}, append(slices.Clone(leaveSoon), more...)...)
	if file != "" {
		s.args = append(s.args, "--dataplane-file", file)
	}
	return s
}
