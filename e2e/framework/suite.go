package framework

import (
	"testing"

	"github.com/onsi/ginkgo/v2"
)

// RunSuite runs the specs of a package. A selection that fits no spec fails: a
// label that was misspelt, or a suite that lost its specs, would otherwise be
// green.
func RunSuite(t *testing.T, name string) {
	t.Helper()
	suite, reporter := ginkgo.GinkgoConfiguration()
	suite.FailOnEmpty = true
	ginkgo.RunSpecs(t, name, suite, reporter)
}
