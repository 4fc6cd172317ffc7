// Package cloud_test tells the story of the audit log with the real program: from a developer who logs in to a
// receiver over HTTPS, also when a control plane dies and another one takes over.
package cloud_test

import (
	"testing"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

func TestCloud(t *testing.T) {
	gomega.RegisterFailHandler(ginkgo.Fail)
	framework.RunSuite(t, "cloud")
}

var _ = ginkgo.AfterEach(framework.ExpectSound)
