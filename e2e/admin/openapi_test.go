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

// everything leaves out no path.
var everything = regexp.MustCompile(`^$`)

// operations counts those of an OpenAPI document, but for some paths, and for the one that serves the document: the
// tool leaves out where it has read it.
func operations(doc map[string]any, but *regexp.Regexp) (n int) {
	paths, _ := doc["paths"].(map[string]any)
	for path, item := range paths {
		if path == document || but.MatchString(path) {
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

// player is a run of the tool.
type player struct {
	url string
	// wanted is how many operations it has to test.
	wanted int
	// env are variables of its script, more are its further arguments.
	env, more []string
}

// keeps demands that every answer keeps to the document. The number of requests bounds it and not the time: a slow
// machine tests as much as a fast one.
func (p player) keeps(ctx SpecContext) {
	GinkgoHelper()
	command := exec.CommandContext(ctx, filepath.Join(framework.Root(), "e2e", "admin", "schemathesis"),
		append([]string{p.url, "--max-examples", strconv.Itoa(examples), "--workers", "2", "--seed", "1"}, p.more...)...)
	command.Env = append(os.Environ(), p.env...)
	// What the tool has started goes with it when the time is up.
	command.WaitDelay = 5 * time.Second
	out, err := command.CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == notInstalled {
		Fail(strings.TrimSpace(string(out)))
	}
	Expect(ctx.Err()).NotTo(HaveOccurred(), string(out))
	Expect(err).NotTo(HaveOccurred(), string(out))
	// The tool is content with a run in which it has tested nothing.
	Expect(reported(string(out), `(?m)^ *Tested: (\d+)$`)).To(Equal(p.wanted), string(out))
	Expect(reported(string(out), `(?m)^ *(\d+) generated`)).To(BeNumerically(">=", leastCases*p.wanted), string(out))
}

var _ = Describe("the OpenAPI document", func() {
	It("of the administration API is kept by every answer to random requests", func(ctx SpecContext) {
		c := framework.NewControlPlane("run", "--store-type", "memory").Start()
		wanted := operations(c.API().Must(http.StatusOK, http.MethodGet, document, nil).JSON(), everything)
		Expect(wanted).To(BeNumerically(">", 200))
		player{url: fmt.Sprintf("http://127.0.0.1:%d", c.Admin), wanted: wanted}.keeps(ctx)
	}, NodeTimeout(10*time.Minute))

	It("of the mesh API is kept by every answer to random requests", func(ctx SpecContext) {
		c := framework.NewControlPlane("run", "--store-type", "memory").Start()
		url := fmt.Sprintf("http://127.0.0.1:%d", c.Mesh)
		r, err := framework.Do(http.DefaultClient, http.MethodGet, url+document, nil, "")
		Expect(err).NotTo(HaveOccurred())
		wanted := operations(r.JSON(), everything)
		Expect(wanted).To(BeNumerically(">", 200))
		player{url: url, wanted: wanted, env: []string{"BODIES=kept"}}.keeps(ctx)
	}, NodeTimeout(10*time.Minute))
})
