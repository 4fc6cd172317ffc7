package framework

import (
	"github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/ports"
)

// FreePorts returns n different ports for processes of a spec; see [ports.Free].
func FreePorts(n int) []int {
	free, err := ports.Free(n)
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	return free
}
