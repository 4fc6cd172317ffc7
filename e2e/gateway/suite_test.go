// Package gateway_test proves what a user of one gateway sees: the demo, the
// README's transcript, foreign OAuth clients, and start-up errors.
package gateway_test

import (
	"testing"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

func TestGateway(t *testing.T) {
	gomega.RegisterFailHandler(ginkgo.Fail)
	ginkgo.RunSpecs(t, "gateway")
}

var _ = ginkgo.AfterEach(framework.ExpectSound)
