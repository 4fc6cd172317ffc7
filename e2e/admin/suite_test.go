// Package admin_test proves what an administrator sees of the whole program:
// the token of the administration API, a gateway whose entities come from a
// file, and an API that keeps to its own OpenAPI document.
package admin_test

import (
	"testing"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

func TestAdmin(t *testing.T) {
	gomega.RegisterFailHandler(ginkgo.Fail)
	ginkgo.RunSpecs(t, "admin")
}

var _ = ginkgo.AfterEach(framework.ExpectSound)
