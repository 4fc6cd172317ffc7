// Package faults_test hurts the parts of a running system and demands that
// nothing fails open, and that good traffic goes on where it must.
package faults_test

import (
	"testing"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

func TestFaults(t *testing.T) {
	gomega.RegisterFailHandler(ginkgo.Fail)
	ginkgo.RunSpecs(t, "faults")
}

var _ = ginkgo.AfterEach(framework.ExpectSound)
