// Package chaos_test holds the one promise that everything else serves: after an
// answer of success to a revocation no gateway and no sidecar accepts what was
// revoked, whatever happens to the control plane, to Redis, to the proxies and to
// the network between them.
//
// Clients issue, check and revoke in every way there is, beside a nemesis that
// kills, freezes, cuts and empties the parts of a running system, alone and two at
// a time. Every operation is noted with its times. Each credential's history at
// each proxy is then held against the promise, as a linearizable object whose
// refusals are always allowed and whose acceptances are not.
//
// How long good tokens were refused is measured beside it, by fault.
package chaos_test

import (
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

func TestChaos(t *testing.T) {
	gomega.RegisterFailHandler(ginkgo.Fail)
	framework.RunSuite(t, "chaos")
}

var _ = ginkgo.AfterEach(framework.ExpectSound)

// The environment variables of a run.
const (
	// timeVariable says how long a run takes, with the start of its world.
	timeVariable = "MESHGATE_E2E_CHAOS_TIME"
	// seedVariable chooses the faults, their order and their lengths.
	seedVariable = "MESHGATE_E2E_CHAOS_SEED"
	// reportVariable names the file for the table.
	reportVariable = "MESHGATE_E2E_CHAOS_REPORT"
	// onlyVariable is a regular expression: only faults whose name it matches.
	onlyVariable = "MESHGATE_E2E_CHAOS_ONLY"
)

// length is how long the run takes.
func length() time.Duration {
	text := os.Getenv(timeVariable)
	if text == "" {
		return 2 * time.Minute
	}
	d, err := time.ParseDuration(text)
	gomega.Expect(err).NotTo(gomega.HaveOccurred(), timeVariable)
	return d
}

// seed is that of the run.
func seed() uint64 {
	text := os.Getenv(seedVariable)
	if text == "" {
		return 1
	}
	n, err := strconv.ParseUint(text, 10, 64)
	gomega.Expect(err).NotTo(gomega.HaveOccurred(), seedVariable)
	return n
}
