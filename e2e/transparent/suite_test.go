// Package transparent_test redirects connections with the rules of the kernel: a control plane,
// a sidecar with a real Envoy that runs as a user of its own, a workload that knows neither,
// and another machine, all in a network of the suite's own.
package transparent_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
	"github.com/meshgate/meshgate/e2e/netns"
)

// TestMain runs the suite in a network of its own.
func TestMain(m *testing.M) {
	if netns.Inside() {
		os.Exit(m.Run())
	}
	out, err := netns.Again(context.Background(), os.Args[1:]...)
	if errors.Is(err, netns.ErrNotPermitted) {
		note := exec.Command("../../.ci/not-checked", "e2e/transparent: "+err.Error())
		note.Stdout = os.Stdout
		_ = note.Run()
		fmt.Println("PASS")
		os.Exit(0)
	}
	_, _ = os.Stdout.Write(out)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func TestTransparent(t *testing.T) {
	RegisterFailHandler(Fail)
	framework.RunSuite(t, "transparent")
}

var _ = AfterEach(framework.ExpectSound)
