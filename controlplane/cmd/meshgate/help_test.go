package main

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/meshgate/meshgate/controlplane/cli"
	"github.com/meshgate/meshgate/controlplane/cli/clitest"
	"github.com/meshgate/meshgate/controlplane/fault"
)

// screen is the number of lines of a help text that are visible at once.
const screen = 30

// every visits a command and those below it.
func every(c *cobra.Command, visit func(*cobra.Command)) {
	visit(c)
	for _, sub := range c.Commands() {
		every(sub, visit)
	}
}

// TestHelpFits: each help text fits on a screen and shows a valid example.
func TestHelpFits(t *testing.T) {
	visited := 0
	every(rootCommand(), func(c *cobra.Command) {
		visited++
		words := strings.Fields(c.CommandPath())[1:]
		text, err := clitest.Execute(t, rootCommand(), append(words, "--help")...)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
		if len(lines) > screen {
			t.Errorf("%s: %d lines\n%s", c.CommandPath(), len(lines), text)
		}
		for _, line := range lines {
			if utf8.RuneCountInString(line) > cli.HelpWidth {
				t.Errorf("%s: a line of %d columns: %s", c.CommandPath(), utf8.RuneCountInString(line), line)
			}
		}
		calls := strings.Split(strings.TrimSpace(strings.ReplaceAll(c.Example, "\\\n", "")), "\n")
		for _, call := range calls {
			called, rest, err := rootCommand().Find(strings.Fields(strings.TrimPrefix(strings.TrimSpace(call), "meshgate")))
			if err == nil {
				err = called.ParseFlags(rest)
			}
			if err == nil && called.Args != nil {
				err = called.Args(called, called.Flags().Args())
			}
			if err != nil || !strings.HasPrefix(strings.TrimSpace(call), c.CommandPath()) {
				t.Errorf("%s: the example %q: %v", c.CommandPath(), call, err)
			}
		}
	})
	if visited < 15 {
		t.Errorf("only %d commands were visited", visited)
	}
}

// TestHiddenFlagsWork: flags that a help text does not list work as well.
func TestHiddenFlagsWork(t *testing.T) {
	help, err := clitest.Execute(t, rootCommand(), "run", "--help")
	if err != nil || strings.Contains(help, "--backup-every") || !strings.Contains(help, "--state-dir") || !strings.Contains(help, "meshgate config --explain") {
		t.Errorf("%v\n%s", err, help)
	}
	out, err := clitest.Execute(t, rootCommand(), "config", "--backup-every", "2h", "backup.every")
	if err != nil || !strings.Contains(out, "2h") {
		t.Errorf("%v %s", err, out)
	}
}

// TestRefused: the refusal of a call is one sentence that says what to do instead. It never
// repeats what may be a secret, and has its own exit code.
func TestRefused(t *testing.T) {
	const canary = "canary-secret-0123"
	for call, want := range map[string]string{
		"":                                "",
		"stauts":                          `unknown command "stauts" for "meshgate"`,
		"keys rotatee":                    `unknown command "rotatee" for "meshgate keys"`,
		"keys rotate":                     "KIND is missing: meshgate keys rotate KIND [flags]; for example: meshgate keys rotate node-tokens",
		"run --gateway-htp-port 1":        "unknown flag: --gateway-htp-port; did you mean --gateway-http-port? It is a flag of config, dataplane, demo, standalone",
		"standalone --gateway-htp-port 1": "unknown flag: --gateway-htp-port; did you mean --gateway-http-port?",
		"changes --gateway-htp-port 1":    "did you mean --gateway-http-port? It is a flag of",
		"keys list --adres 1":             "did you mean --address?",
		"keys delete node-tokens":         "NAME is missing: meshgate keys delete KIND NAME [flags]; for example: meshgate keys delete node-tokens 1",
		"keys delete":                     "KIND and NAME are missing",
		"backup a b " + canary:            "too much is given, 3 arguments instead of FILE",
		"keys delete dataplane-tokens 1":  "--mesh is needed",
		"backup":                          "FILE is missing: meshgate backup FILE [flags]; for example: meshgate backup meshgate.backup",
		"restore":                         "FILE is missing: meshgate restore FILE [flags]; for example: meshgate restore meshgate.backup",
		"run now":                         `unknown command "now" for "meshgate run"`,
		"version --vresion":               "unknown flag: --vresion; did you mean --",
		"run --stat-dir x":                "unknown flag: --stat-dir; did you mean --state-dir?",
		"run --admin-token " + canary:     "--admin-token: admin.token must not be given as a flag, which every user of this machine can read: use the environment variable MESHGATE_ADMIN_TOKEN or the setting admin.tokenFile",
		"run --admin-token=" + canary:     "MESHGATE_ADMIN_TOKEN",
		"run --admin-token=":              "MESHGATE_ADMIN_TOKEN",
		"config --admin-token " + canary:  "MESHGATE_ADMIN_TOKEN",
		"backup x --store-encryption-key " + canary: "--store-encryption-key: store.encryption.key must not be given as a flag, which every user of this machine can read: " +
			"use the environment variable MESHGATE_STORE_ENCRYPTION_KEY or the setting store.encryption.keyFile",
		"run --redis-url redis://:" + canary + "@h":                 "redis.url: must not be given as a flag",
		"run --gateway-http-port 8000":                              "--gateway-http-port does nothing for meshgate run: it is a flag of config, dataplane, demo, standalone",
		"run --drain-delay 0s":                                      "does nothing for meshgate run",
		"backup x --mesh-port 1":                                    "--mesh-port does nothing for meshgate backup: it is a flag of config, demo, run, standalone",
		"keys list --mesh-port 1":                                   "meshgate keys list takes the address with --address and a file with the token with --token-file",
		"changes --admin-token " + canary:                           "takes the address with --address and a file with the token with --token-file",
		"changes --gateway-http-port 1":                             "does nothing for meshgate changes",
		"config no.such":                                            `there is no setting "no.such"`,
		"config --explain admni.token":                              `there is no setting "admni.token"; did you mean "admin.token"?`,
		"run --state-dir":                                           "flag needs an argument: --state-dir",
		"run --dataPlane.port=" + canary:                            "unknown flag: --dataPlane.port; did you mean --data-plane-port?",
		"dataplane --proxy-type oauth-gateway --client-cert-file x": "--client-cert-file and --client-key-file belong together",
		"dataplane --proxy-type sidecar --client-cert-file x --client-key-file y":                                "--client-cert-file is for oauth-gateways",
		"dataplane --proxy-type oauth-gateway --client-cert-file x --client-key-file y --dataplane-token-file z": "takes the place of --dataplane-token-file",
		"run -x": "unknown shorthand flag: 'x' in -x",
		"run --gateway-declarative x --admin-port x": "wrong type: decoding failed due to the following error(s): 'admin.port'",
		"run --config /no/such/file":                 "cannot read the configuration file",
	} {
		root := rootCommand()
		_, err := clitest.Execute(t, root, strings.Fields(call)...)
		if want == "" {
			if err != nil {
				t.Errorf("%q: %v", call, err)
			}
			continue
		}
		code, text := verdict(root, err)
		if err == nil || code != cli.ExitNotBegun || !strings.Contains(text, want) || strings.Contains(text, canary) || strings.Contains(text, "\n") {
			t.Errorf("%q: code %d, %s", call, code, text)
		}
	}
	for _, call := range []string{"status --adress x", "status --admin-port 1", "status --admin-token " + canary, "status now", "status -o xml"} {
		root := rootCommand()
		_, err := clitest.Execute(t, root, strings.Fields(call)...)
		if code, text := verdict(root, err); err == nil || code != cli.ExitFailed || strings.Contains(text, canary) {
			t.Errorf("%q: code %d, %s: 2 says that something is wrong with the fleet", call, code, text)
		}
	}
}

// TestVerdict: a failure after the program has begun has another exit code than one before.
func TestVerdict(t *testing.T) {
	root := rootCommand()
	if code, _ := verdict(root, errors.New("x")); code != cli.ExitNotBegun {
		t.Error(code)
	}
	if _, err := clitest.Execute(t, root, "version"); err != nil {
		t.Fatal(err)
	}
	for want, err := range map[int]error{cli.ExitFailed: errors.New("x"), cli.ExitNotBegun: fault.NotBegun(errors.New("x")), 7: cli.CodedError{Code: 7, Text: "x"}} {
		if code, text := verdict(root, err); code != want || text != "x" {
			t.Errorf("%d %s, want %d", code, text, want)
		}
	}
}
