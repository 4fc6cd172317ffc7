package admin_test

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

// notInstalled is the exit code of the script when it has no tool to run.
const notInstalled = 3

var _ = Describe("the OpenAPI document of the administration API", func() {
	It("is kept by every answer to random requests", func(ctx SpecContext) {
		c := framework.NewControlPlane("run", "--store-type", "memory").Start()
		command := exec.CommandContext(ctx, filepath.Join(framework.Root(), "e2e", "admin", "schemathesis"),
			fmt.Sprintf("http://127.0.0.1:%d", c.Admin), "--max-examples", "5", "--max-time", "50", "--seed", "1")
		// What the tool has started goes with it when the time is up.
		command.WaitDelay = 5 * time.Second
		out, err := command.CombinedOutput()
		if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == notInstalled {
			Fail(strings.TrimSpace(string(out)))
		}
		Expect(ctx.Err()).NotTo(HaveOccurred(), string(out))
		Expect(err).NotTo(HaveOccurred(), string(out))
	}, NodeTimeout(4*time.Minute))
})
