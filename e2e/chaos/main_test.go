package chaos_test

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	code := m.Run()
	// Ginkgo listens for interrupts to the end.
	ginkgo := goleak.IgnoreTopFunction("github.com/onsi/ginkgo/v2/internal/interrupt_handler.(*InterruptHandler).registerForInterrupts.func2")
	if err := goleak.Find(ginkgo); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, "e2e/chaos:", err)
		code = 1
	}
	os.Exit(code)
}
