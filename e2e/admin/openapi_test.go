package admin_test

import (
	"errors"
	"fmt"
	"net/http"
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

// document is where the API describes itself.
const document = "/openapi.json"

const (
	// notInstalled is the exit code of the script when it has no tool to run.
	notInstalled = 3
	// examples bounds the random requests of an operation in each of the tool's
	// modes; leastCases is how many requests of an operation there must be.
	examples, leastCases = 4, 3
)

// reported reads a number of the tool's summary; 0 where there is none.
func reported(out, pattern string) int {
	found := regexp.MustCompile(pattern).FindStringSubmatch(out)
	if found == nil {
		return 0
	}
	n, err := strconv.Atoi(found[1])
	ExpectWithOffset(1, err).NotTo(HaveOccurred())
	return n
}

// operations counts those of an OpenAPI document, but for the one that serves the
// document: the tool leaves out where it has read it.
func operations(doc map[string]any) (n int) {
	paths, _ := doc["paths"].(map[string]any)
	for path, item := range paths {
		if path == document {
			continue
		}
		methods, _ := item.(map[string]any)
		for name := range methods {
			if name != "parameters" {
				n++
			}
		}
	}
	return n
}

var _ = Describe("the OpenAPI document", func() {
	// The number of requests bounds it and not the time: a slow machine tests as much as a fast one.
	kept := func(ctx SpecContext, url string, wanted int, bodies string) {
		command := exec.CommandContext(ctx, filepath.Join(framework.Root(), "e2e", "admin", "schemathesis"),
			url, "--max-examples", strconv.Itoa(examples), "--workers", "2", "--seed", "1")
		command.Env = append(os.Environ(), "BODIES="+bodies)
		// What the tool has started goes with it when the time is up.
		command.WaitDelay = 5 * time.Second
		out, err := command.CombinedOutput()
		if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == notInstalled {
			Fail(strings.TrimSpace(string(out)))
		}
		Expect(ctx.Err()).NotTo(HaveOccurred(), string(out))
		Expect(err).NotTo(HaveOccurred(), string(out))
		// The tool is content with a run in which it has tested nothing.
		Expect(reported(string(out), `(?m)^ *Tested: (\d+)$`)).To(Equal(wanted), string(out))
		Expect(reported(string(out), `(?m)^ *(\d+) generated`)).To(BeNumerically(">=", leastCases*wanted), string(out))
	}

	It("of the administration API is kept by every answer to random requests", func(ctx SpecContext) {
		c := framework.NewControlPlane("run", "--store-type", "memory").Start()
		wanted := operations(c.API().Must(http.StatusOK, http.MethodGet, document, nil).JSON())
		Expect(wanted).To(BeNumerically(">", 200))
		kept(ctx, fmt.Sprintf("http://127.0.0.1:%d", c.Admin), wanted, "")
	}, NodeTimeout(4*time.Minute))

	It("of the mesh API is kept by every answer to random requests", func(ctx SpecContext) {
		c := framework.NewControlPlane("run", "--store-type", "memory").Start()
		url := fmt.Sprintf("http://127.0.0.1:%d", c.Mesh)
		r, err := framework.Do(http.DefaultClient, http.MethodGet, url+document, nil, "")
		Expect(err).NotTo(HaveOccurred())
		wanted := operations(r.JSON())
		Expect(wanted).To(BeNumerically(">", 200))
		kept(ctx, url, wanted, "kept")
	}, NodeTimeout(4*time.Minute))
})
