package cli

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/meshgate/meshgate/controlplane/config"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/version"
)

// FlagName returns the flag of a setting: --store-sqlite-path for store.sqlite.path.
func FlagName(key string) string {
	env := strings.TrimPrefix(config.EnvName(key), "MESHGATE_")
	return strings.ToLower(strings.ReplaceAll(env, "_", "-"))
}

// setting marks flags that [AddFlags] has made.
const setting = "setting"

// uses reports which settings a command uses.
type uses func(name string) bool

// Everything is for commands that use all settings.
func Everything(string) bool { return true }

// Only is for commands that use only these settings. A name with a dot at its end stands for
// a section.
func Only(settings ...string) uses {
	return func(name string) bool { return concerns(settings, name) }
}

// AllBut is for commands that use all settings except these; see [Only].
func AllBut(settings ...string) uses {
	return func(name string) bool { return !concerns(settings, name) }
}

// envoySettings are the settings of a process that runs an Envoy. OwnGateway are the settings
// that a control plane without a gateway does not use. ProxySettings are those of a command
// that runs one Envoy and no control plane, StoreSettings those of a command that only
// handles databases. LogSettings are those of a command that has its own flags for everything
// else.
var (
	envoySettings = []string{
		"modulePath", "gateway.listen", "gateway.httpPort", "gateway.httpsPort", "envoy.", "filter.", "drain.", "status.", "workload.", "cache.",
		"accessLog.path", "accessLog.dir", "accessLog.maxSize", "accessLog.keep",
	}
	OwnGateway    = slices.Concat(envoySettings, []string{"gateway.name"})
	ProxySettings = slices.Concat(envoySettings, []string{"stateDir", "log."})
	StoreSettings = []string{"stateDir", "log.", "store.type", "store.sqlite.", "store.encryption."}
	LogSettings   = []string{"log."}
)

// AddFlags gives a command a flag for each setting that it uses, and no flags without an
// effect. The file and the environment, which commands share, may contain other settings.
// Settings that are always secret have no flags.
func AddFlags(c *cobra.Command, used uses) {
	AddConfigFlag(c)
	for _, k := range config.Table {
		if !used(k.Name) || config.NeverFlag(k.Name) != "" {
			continue
		}
		name := FlagName(k.Name)
		c.Flags().String(name, "", fmt.Sprintf("%s (default %q)", k.Help, fmt.Sprint(k.Default)))
		c.Flags().Lookup(name).Annotations = map[string][]string{setting: nil}
	}
}

// usesOf returns the settings that a command uses: those that are flags of it, and those that
// are never flags, so that these are always checked.
func usesOf(c *cobra.Command) uses {
	return func(name string) bool {
		f := c.Flags().Lookup(FlagName(name))
		if f == nil {
			return config.NeverFlag(name) != ""
		}
		_, ok := f.Annotations[setting]
		return ok
	}
}

// AddConfigFlag gives a command the flag for the file that [Load] reads.
func AddConfigFlag(c *cobra.Command) {
	c.Flags().String("config", "", "configuration file (YAML); else $"+config.EnvFile)
}

func concerns(settings []string, key string) bool {
	return slices.ContainsFunc(settings, func(s string) bool {
		return key == s || strings.HasSuffix(s, ".") && strings.HasPrefix(key, s)
	})
}

// Load reads the configuration of a command.
func Load(c *cobra.Command) (*config.Loaded, error) {
	src := config.Sources{Env: os.Environ(), Flags: map[string]string{}, Uses: usesOf(c)}
	src.File, _ = c.Flags().GetString("config")
	for _, k := range config.Table {
		if f := c.Flags().Lookup(FlagName(k.Name)); f != nil && f.Changed && src.Uses(k.Name) {
			src.Flags[k.Name] = f.Value.String()
		}
	}
	l, err := config.Load(src)
	if err != nil {
		return nil, fault.NotBegun(err)
	}
	for _, w := range l.Warnings {
		l.Config.Log.Logger().Warn("a variable of the environment is not used", "reason", w)
	}
	return l, nil
}

// ConfigCommand shows the settings.
func ConfigCommand() *cobra.Command {
	var explain bool
	c := &cobra.Command{
		Use:   "config [SETTING]...",
		Short: "Show every setting, its value, and where that came from",
		Long: `Show every setting, its value, and where that came from: the default, the file, the
environment or a flag, of which the later wins. Names pick settings (redis.url) and
sections (redis). Secrets are masked. It takes the flags of
every command.`,
		Example: `  meshgate config --explain admin redis.url`,
		RunE: func(c *cobra.Command, names []string) error {
			l, err := Load(c)
			if err != nil {
				return err
			}
			if explain {
				return fault.NotBegun(l.Explain(c.OutOrStdout(), func(k config.Key) string { return asFlag(c.Root(), k) }, names...))
			}
			return fault.NotBegun(l.Show(c.OutOrStdout(), names...))
		},
	}
	AddFlags(c, Everything)
	c.Flags().BoolVar(&explain, "explain", false, "say what each setting means, its default, and which commands have it as a flag")
	return c
}

// asFlag says how a setting is given as a flag.
func asFlag(root *cobra.Command, k config.Key) string {
	if config.NeverFlag(k.Name) != "" {
		return "never a flag"
	}
	return "--" + FlagName(k.Name) + " of " + strings.Join(commandsWith(root, FlagName(k.Name)), ", ")
}

// commandsWith lists the commands that have a flag.
func commandsWith(root *cobra.Command, flag string) (out []string) {
	for _, c := range root.Commands() {
		if c.Flags().Lookup(flag) != nil {
			out = append(out, c.Name())
		}
	}
	return out
}

// VersionCommand shows what the binary was built from.
func VersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Show what this binary was built from",
		Hidden:  true, // --version shows the same
		Example: `  meshgate version`,
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := fmt.Fprint(c.OutOrStdout(), version.Line())
			return err
		},
	}
}
