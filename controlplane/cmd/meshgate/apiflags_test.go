package main

import (
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/cli"
	"github.com/meshgate/meshgate/controlplane/cli/clitest"
	"github.com/meshgate/meshgate/controlplane/gatewayapi"
	"github.com/meshgate/meshgate/controlplane/meshapi"
	"github.com/meshgate/meshgate/controlplane/nodes/nodestest"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/e2e/ports"
)

// askingCommands lists the commands that call a running control plane, with the arguments
// that they need.
var askingCommands = []string{"status", "changes", "keys list", "keys rotate node-tokens", "keys delete node-tokens 1"}

// TestOneWayToAsk: every command that calls a control plane has the same flags for it, and no
// flags for settings.
func TestOneWayToAsk(t *testing.T) {
	for _, command := range askingCommands {
		c, _, err := rootCommand().Find(strings.Fields(command))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"address", "ca-cert-file", "token-file", "config"} {
			if c.Flags().Lookup(name) == nil {
				t.Errorf("%s has no --%s", command, name)
			}
		}
		for _, name := range []string{"mesh-port", "mesh-listen", "admin-port", "admin-token", "admin-token-file", "state-dir", "log-level"} {
			if c.Flags().Lookup(name) != nil {
				t.Errorf("%s has --%s, which does nothing there", command, name)
			}
		}
	}
}

const apiSecret = "a-secret-of-administrators"

// serveAdmin serves an administration API that requires a token.
func serveAdmin(t *testing.T) (address string) {
	t.Helper()
	db := memstore.New()
	t.Cleanup(func() { _ = db.Close() })
	s := httptest.NewServer(gatewayapi.New(gatewayapi.Options{Store: db, Nodes: nodestest.New(), Token: apiSecret, Log: slog.New(slog.DiscardHandler), Now: time.Now}).Handler())
	t.Cleanup(s.Close)
	return s.URL
}

// TestAskingInVain: a refusal is one sentence with the flag that helps, the same for every
// command. Its exit code tells whose mistake it is.
func TestAskingInVain(t *testing.T) {
	admin := serveAdmin(t)
	secure := httptest.NewUnstartedServer(meshapi.Handler(meshapi.Options{}))
	secure.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	secure.StartTLS()
	t.Cleanup(secure.Close)
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	free, err := ports.Free(1) // nobody else is given it meanwhile
	if err != nil {
		t.Fatal(err)
	}
	port := strconv.Itoa(free[0])
	nobody := "127.0.0.1:" + port
	empty, settings := write("empty", ""), write("settings.yaml", "mesh:\n  port: "+port+"\n")
	for name, tc := range map[string]struct {
		args, want string
		code       int
	}{
		"nobody there":      {"--address http://" + nobody, "nobody listens at http://" + nobody + ": start the control plane, or correct --address", cli.ExitFailed},
		"nobody here":       {"--config " + settings, "nobody listens at http://" + nobody + " (mesh.listen and mesh.port of the settings): start", cli.ExitFailed},
		"another CA":        {"--address " + secure.URL, "name the ca.pem of this control plane's state directory with --ca-cert-file", cli.ExitFailed},
		"no token":          {"--address " + admin, "name a file that holds it with --token-file", cli.ExitFailed},
		"a wrong token":     {"--address " + admin + " " + clitest.TokenFile(t, "another-secret-of-theirs"), "put the control plane's (admin.token or admin.tokenFile) there", cli.ExitFailed},
		"another path":      {"--address " + admin + "/x " + clitest.TokenFile(t, apiSecret), "correct --address", cli.ExitFailed},
		"no URL":            {"--address 127.0.0.1:5681", `--address "127.0.0.1:5681" is no URL that begins with http:// or https://`, cli.ExitNotBegun},
		"a password":        {"--address http://u:" + apiSecret + "@h", "--address must not hold a user or a password", cli.ExitNotBegun},
		"a token in clear":  {"--address http://cp.example " + clitest.TokenFile(t, apiSecret), "could be overheard on the way", cli.ExitNotBegun},
		"no token in it":    {"--token-file " + empty, empty + " is empty", cli.ExitNotBegun},
		"no file":           {"--token-file " + empty + "x", "--token-file: open ", cli.ExitNotBegun},
		"no certificate":    {"--address https://h --ca-cert-file " + empty, "holds no certificate", cli.ExitNotBegun},
		"nothing to check":  {"--ca-cert-file " + empty, "--ca-cert-file means nothing for http://127.0.0.1:5681", cli.ExitNotBegun},
		"two ways":          {"--config " + settings + " --address " + admin, "leave one of them out", cli.ExitNotBegun},
		"no settings":       {"--config " + empty + "x", "cannot read the configuration file", cli.ExitNotBegun},
		"a port of its own": {"--config " + write("zero.yaml", "mesh:\n  port: 0\n"), "name it with --address", cli.ExitNotBegun},
	} {
		for _, command := range askingCommands {
			want := tc.code
			if command == "status" {
				want = cli.ExitFailed // 2 has another meaning for this command
			}
			out, err := clitest.Execute(t, rootCommand(), append(strings.Fields(command), strings.Fields(tc.args)...)...)
			if err == nil || clitest.Code(err) != want || !strings.Contains(err.Error(), tc.want) || out != "" {
				t.Errorf("%s, %s: code %d, %v %s", command, name, clitest.Code(err), err, out)
			}
			if err != nil && (strings.Contains(err.Error(), apiSecret) || strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "dial tcp")) {
				t.Errorf("%s, %s: %v", command, name, err)
			}
		}
	}
	for _, command := range []string{"status", "changes", "keys list"} {
		if _, err := clitest.Execute(t, rootCommand(), append(strings.Fields(command), "-o", "xml")...); err == nil || !strings.Contains(err.Error(), `--output "xml" is neither table nor json`) {
			t.Errorf("%s: %v", command, err)
		}
	}
}
