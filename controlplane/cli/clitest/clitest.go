// Package clitest runs commands in tests as the program does.
package clitest

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/meshgate/meshgate/controlplane/cli"
	"github.com/meshgate/meshgate/controlplane/fault"
)

// Execute runs a command with arguments, without the configuration file from the environment.
// It returns what the command prints on both streams.
func Execute(t *testing.T, c *cobra.Command, args ...string) (string, error) {
	t.Helper()
	t.Setenv("MESHGATE_CONFIG", "")
	var out strings.Builder
	c.SetOut(&out)
	c.SetErr(&out)
	c.SetArgs(append([]string{}, args...)) // without arguments, the command would take those of the test
	c.SilenceErrors, c.SilenceUsage = true, true
	err := c.ExecuteContext(t.Context())
	return out.String(), err
}

// Code returns the exit code of a program whose command has returned an error.
func Code(err error) int {
	if coded, ok := errors.AsType[cli.CodedError](err); ok {
		return coded.Code
	}
	switch {
	case err == nil:
		return 0
	case !fault.Begun(err):
		return cli.ExitNotBegun
	}
	return cli.ExitFailed
}

// TokenFile returns the flag that names a file with a token.
func TokenFile(t *testing.T, token string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	return "--token-file=" + file
}
