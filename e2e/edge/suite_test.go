// Package edge_test proves what a hostile client of one gateway meets: requests
// that two parsers could read differently, claims that only the gateway may
// make, ports that belong to nodes, and places where a secret could be left. The
// suite runs one real `meshgate standalone` with a real Redis.
package edge_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

// trustedProxy may speak for the scheme of its clients; nobody in this suite is
// it.
const trustedProxy = "192.0.2.1"

// The world of every spec.
var (
	redis *framework.Redis
	c     *framework.ControlPlane
	f     *framework.Fixture
	// guarded is what the protected route leads to, open what others lead to.
	guarded, open *upstream
	// envoy is the process id that must never change.
	envoy int
)

func TestEdge(t *testing.T) {
	RegisterFailHandler(Fail)
	framework.RunSuite(t, "edge")
}

var _ = BeforeSuite(func() {
	redis = framework.StartRedis()
	c = framework.NewControlPlane("standalone", append(redis.Flags(), "--gateway-trusted-ips", trustedProxy, "--diagnostics-pprof", "true")...).Start()
	f = framework.NewFixture(c)
	guarded, open = startUpstream("guarded"), startUpstream("open")
	f.Must(200, "PATCH", "/services/api", map[string]any{"port": guarded.port()})
	f.Must(201, "POST", "/services", map[string]any{"name": "open", "host": "127.0.0.1", "port": open.port()})
	f.Must(201, "POST", "/services/open/routes", map[string]any{"name": "open", "paths": []string{"/open", "/public"}, "strip_path": false})
	f.Converged()
	envoy = framework.RunningEnvoy(c.StateDir)
	Expect(envoy).NotTo(BeZero())
})

// Whatever a client sent, the gateway must have lived through it.
var _ = AfterEach(func() {
	Expect(framework.RunningEnvoy(c.StateDir)).To(Equal(envoy), "Envoy was restarted")
	Expect(framework.Alive(envoy)).To(BeTrue(), "Envoy died")
	Expect(c.Output()).NotTo(ContainSubstring("envoy ended unexpectedly"))
	framework.ExpectSound()
})
