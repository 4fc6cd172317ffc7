// Package groups_test proves what gateways of a group of control planes serve, while members come, go
// and contradict each other.
package groups_test

import (
	"testing"
	"time"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

// patience bounds what happens without a request of the test.
const patience = time.Minute

func TestGroups(t *testing.T) {
	gomega.RegisterFailHandler(ginkgo.Fail)
	framework.RunSuite(t, "groups")
}

var _ = ginkgo.AfterEach(framework.ExpectSound)
