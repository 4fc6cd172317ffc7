// Package mesh_test runs meshes on real Envoys: a control plane, sidecars and the
// workloads behind them, with traffic through both proxies. What is claimed to
// take effect at once is measured by asking without a pause, and reported.
//
// The variable named by framework.EnvoyVariable runs everything on another Envoy.
package mesh_test

import (
	"os"
	"syscall"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

const term = syscall.SIGTERM

// core marks the specs that every supported version of Envoy must pass.
var core = Label("core")

func TestMesh(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "mesh")
}

var _ = AfterEach(framework.ExpectSound)

// otherEnvoy is the path of the Envoy that the suite is asked to run on; empty for
// that beside the program.
func otherEnvoy() string { return os.Getenv(framework.EnvoyVariable) }
