package framework

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"

	"github.com/onsi/gomega"
)

// Follow makes a server a replica of another one, as Sentinel demotes a primary: its
// clients are dropped in the same transaction.
func (r *Redis) Follow(port int) {
	cmd := exec.Command("redis-cli", "-p", strconv.Itoa(r.Port))
	cmd.Stdin = strings.NewReader(fmt.Sprintf("MULTI\nREPLICAOF 127.0.0.1 %d\nCLIENT KILL TYPE normal\nEXEC\n", port))
	out, err := cmd.CombinedOutput()
	gomega.ExpectWithOffset(1, err).NotTo(gomega.HaveOccurred(), string(out))
	gomega.ExpectWithOffset(1, string(out)).NotTo(gomega.ContainSubstring("ERR"))
}
