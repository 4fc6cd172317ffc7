package main

import (
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/meshgate/meshgate/controlplane/config"
)

// flagName is the flag of a setting: store.sqlite.path is --store-sqlite-path.
func flagName(key string) string {
	env := strings.TrimPrefix(config.EnvName(key), "MESHGATE_")
	return strings.ToLower(strings.ReplaceAll(env, "_", "-"))
}

// setting marks flags that [addFlags] made.
const setting = "setting"

// proxySettings are those that mean something to a command that runs one Envoy
// and no control plane, and storeSettings to one that only handles its databases.
// A section is named by its dot.
var (
	proxySettings = []string{"stateDir", "modulePath", "log.", "gateway.listen", "gateway.httpPort", "gateway.httpsPort", "envoy.", "drain.", "status.", "cache.",
		"accessLog.path", "accessLog.maxSize", "accessLog.keep"}
	storeSettings = []string{"stateDir", "log.", "store."}
)

// addFlags gives a command a flag for each setting, or for each of those that are
// named: a flag that does nothing is a promise that is not kept. A file and the
// environment, which several commands share, may hold the others.
func addFlags(c *cobra.Command, settings ...string) {
	addConfigFlag(c)
	for _, k := range config.Table {
		if len(settings) > 0 && !concerns(settings, k.Name) {
			continue
		}
		name := flagName(k.Name)
		c.Flags().String(name, "", fmt.Sprintf("%s (default %q)", k.Help, fmt.Sprint(k.Default)))
		c.Flags().Lookup(name).Annotations = map[string][]string{setting: nil}
	}
}

// addConfigFlag gives a command the file that [load] reads.
func addConfigFlag(c *cobra.Command) {
	c.Flags().String("config", "", "configuration file (YAML); else $"+config.EnvFile)
}

func concerns(settings []string, key string) bool {
	return slices.ContainsFunc(settings, func(s string) bool {
		return key == s || strings.HasSuffix(s, ".") && strings.HasPrefix(key, s)
	})
}

// load reads the configuration of a command.
func load(c *cobra.Command) (*config.Loaded, error) {
	src := config.Sources{Env: os.Environ(), Flags: map[string]string{}}
	src.File, _ = c.Flags().GetString("config")
	for _, k := range config.Table {
		f := c.Flags().Lookup(flagName(k.Name))
		if f == nil || !f.Changed {
			continue
		}
		if _, ok := f.Annotations[setting]; ok {
			src.Flags[k.Name] = f.Value.String()
		}
	}
	l, err := config.Load(src)
	if err != nil {
		return nil, notBegun(err)
	}
	for _, w := range l.Warnings {
		newLogger(l.Config.Log).Warn("a variable of the environment is not used", "reason", w)
	}
	return l, nil
}

// newLogger returns the logger that everything gets injected.
func newLogger(c config.Log) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(c.Level)) // the configuration was checked
	o := &slog.HandlerOptions{Level: level}
	if c.Format == "json" {
		return slog.New(slog.NewJSONHandler(os.Stderr, o))
	}
	return slog.New(slog.NewTextHandler(os.Stderr, o))
}

func configCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "config",
		Short: "Show the effective configuration, and where each value came from",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			l, err := load(c)
			if err != nil {
				return err
			}
			return l.Show(c.OutOrStdout())
		},
	}
	addFlags(c)
	return c
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Show what this binary was built from",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := fmt.Fprint(c.OutOrStdout(), versionLine())
			return err
		},
	}
}

// versionLine says what this binary was built from.
func versionLine() string {
	revision := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				revision = s.Value
			}
		}
	}
	return fmt.Sprintf("meshgate %s (revision %s, %s, %s/%s, for Envoy %s)\n",
		version, revision, runtime.Version(), runtime.GOOS, runtime.GOARCH, envoyVersion)
}
