// Package redises_test runs gateways over every kind of Redis, and over Redises
// that fail in every way, and demands the same of all: what was revoked with
// success is refused by every gateway from then on, and good tokens are served.
package redises_test

import (
	"testing"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

func TestRedises(t *testing.T) {
	gomega.RegisterFailHandler(ginkgo.Fail)
	framework.RunSuite(t, "redises")
}

var _ = ginkgo.AfterEach(framework.ExpectSound)
