package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/meshgate/meshgate/controlplane/config"
	"github.com/meshgate/meshgate/controlplane/fault"
)

// HelpWidth is the maximum width of a help text in columns.
const HelpWidth = 100

// SettingsHelp is the end of the help of a command whose flags are settings.
const SettingsHelp = `
Further settings are flags, too, which are not listed here: see meshgate config --explain.`

// listedSettings lists, by command, the settings whose flags help texts show. A list of all
// settings would be too long to be useful.
var listedSettings = map[string][]string{
	"run": {"stateDir", "redis.url", "dataPlane.names", "admin.tokenFile", "gateway.declarative", "log.level"},
	"standalone": {
		"stateDir", "redis.url", "dataPlane.names", "admin.tokenFile", "gateway.declarative", "log.level",
		"gateway.httpPort", "gateway.httpsPort", "status.port",
	},
	"demo":      {"stateDir", "gateway.httpPort", "gateway.httpsPort", "envoy.path"},
	"dataplane": {"stateDir", "gateway.httpPort", "gateway.httpsPort", "status.port"},
	"authz":     {"log.level"},
	"backup":    {"stateDir"},
	"restore":   {"stateDir"},
}

// BriefHelp makes help texts fit on a screen. Flags that are not listed are hidden only here,
// so that shells still complete them.
func BriefHelp(root *cobra.Command) {
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetUsageTemplate(strings.NewReplacer(
		"Flags.FlagUsages ", fmt.Sprintf("Flags.FlagUsagesWrapped %d ", HelpWidth),
		`(or .IsAvailableCommand (eq .Name "help"))`, ".IsAvailableCommand", // the last line mentions help
	).Replace(root.UsageTemplate()))
	whole := root.HelpFunc()
	root.SetHelpFunc(func(c *cobra.Command, args []string) {
		for _, k := range config.Table {
			if f := c.Flags().Lookup(FlagName(k.Name)); f != nil && usesOf(c)(k.Name) {
				f.Hidden, f.Usage = !slices.Contains(listedSettings[c.Name()], k.Name), brief(k)
			}
		}
		whole(c, args)
	})
}

// brief returns the meaning of a setting without the details, which `meshgate config
// --explain` shows.
func brief(k config.Key) string {
	text, _, _ := strings.Cut(k.Help, ";")
	text, _, _ = strings.Cut(text, " (docs/")
	text, _, _ = strings.Cut(text, " (see ")
	if d := fmt.Sprint(k.Default); d != "" {
		text += fmt.Sprintf(" (default %q)", d)
	}
	return text
}

// BadFlag says what to use instead of a flag that a command does not have. It does not repeat
// the value, which may be a secret.
func BadFlag(c *cobra.Command, err error) error {
	unknown, ok := errors.AsType[interface {
		error
		GetSpecifiedName() string
	}](err)
	if !ok || len(unknown.GetSpecifiedName()) < 2 {
		return err
	}
	name := unknown.GetSpecifiedName()
	if c.Flags().Lookup(name) != nil { // the flag is known, but its value is missing
		return err
	}
	asks := c.Flags().Lookup("token-file") != nil
	if asks && (strings.HasPrefix(name, "admin-") || strings.HasPrefix(name, "mesh-")) {
		return fmt.Errorf("--%s says where a control plane listens and what it demands: %s takes the address with --address and a file with the token with --token-file", name, c.CommandPath())
	}
	for _, k := range config.Table {
		if FlagName(k.Name) != name {
			continue
		}
		if never := config.NeverFlag(k.Name); never != "" {
			return fmt.Errorf("--%s: %s %s", name, k.Name, never)
		}
		return fmt.Errorf("--%s does nothing for %s: it is a flag of %s", name, c.CommandPath(), strings.Join(commandsWith(c.Root(), name), ", "))
	}
	return fmt.Errorf("%w; %s", err, meantFlag(c, name))
}

// meantFlag returns the flag that was probably meant, among those of all commands. A name
// that is nearer to a flag of another command is not a typing error, but given to the wrong
// command.
func meantFlag(c *cobra.Command, name string) string {
	own := flagsOf(c)
	all := slices.Clone(own)
	for _, k := range config.Table {
		if config.NeverFlag(k.Name) == "" {
			all = append(all, FlagName(k.Name))
		}
	}
	near := fault.Nearest(name, all)
	text := fmt.Sprintf("did you mean --%s?", near)
	if !slices.Contains(own, near) && c.Flags().Lookup(near) == nil {
		text += " It is a flag of " + strings.Join(commandsWith(c.Root(), near), ", ")
	}
	return text
}

// flagsOf returns the names of a command's flags.
func flagsOf(c *cobra.Command) (names []string) {
	for _, line := range strings.Split(c.Flags().FlagUsages(), "\n") {
		if _, rest, found := strings.Cut(line, "--"); found {
			name, _, _ := strings.Cut(rest, " ")
			names = append(names, name)
		}
	}
	return names
}
