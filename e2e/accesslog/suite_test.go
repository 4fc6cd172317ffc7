// Package accesslog_test proves that the access log says of each request what became
// of it and why, to those who may know, and shows no credential to anybody.
package accesslog_test

import (
	"testing"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

func TestAccessLog(t *testing.T) {
	gomega.RegisterFailHandler(ginkgo.Fail)
	framework.RunSuite(t, "accesslog")
}

var _ = ginkgo.AfterEach(framework.ExpectSound)
