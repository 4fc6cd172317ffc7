package framework

import (
	"testing"
	"time"

	"github.com/onsi/ginkgo/v2"
)

// RunSuite runs the specs of a package. A selection that fits no spec fails: a
// label that was misspelt, or a suite that lost its specs, would otherwise be
// green. A step that takes long tells every minute what it waits for, so that one
// that never ends has said so before the suite is killed.
func RunSuite(t *testing.T, name string) {
	t.Helper()
	suite, reporter := ginkgo.GinkgoConfiguration()
	suite.FailOnEmpty = true
	if suite.PollProgressAfter == 0 {
		suite.PollProgressAfter, suite.PollProgressInterval = time.Minute, time.Minute
	}
	ginkgo.RunSpecs(t, name, suite, reporter)
}
