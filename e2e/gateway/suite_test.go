// Package gateway_test proves what a user of one gateway sees: the demo, the
// README's transcript, foreign OAuth clients, and start-up errors.
package gateway_test

import (
	"testing"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
)

func TestGateway(t *testing.T) {
	gomega.RegisterFailHandler(ginkgo.Fail)
	ginkgo.RunSpecs(t, "gateway")
}
