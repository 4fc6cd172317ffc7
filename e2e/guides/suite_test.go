// Package guides_test follows the guides of the documentation by copy and paste,
// on ports and in directories of its own, and holds what is seen against what the
// pages promise.
package guides_test

import (
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

// patience bounds one whole guide.
const patience = 4 * time.Minute

func TestGuides(t *testing.T) {
	RegisterFailHandler(Fail)
	framework.RunSuite(t, "guides")
}
