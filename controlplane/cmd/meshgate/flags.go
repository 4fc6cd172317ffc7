package main

import (
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"runtime/debug"
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

// addFlags gives a command a flag for each setting, unless the command has given
// the name another meaning before.
func addFlags(c *cobra.Command) {
	c.Flags().String("config", "", "configuration file (YAML); else $"+config.EnvFile)
	for _, k := range config.Table {
		name := flagName(k.Name)
		if c.Flags().Lookup(name) != nil {
			continue
		}
		c.Flags().String(name, "", fmt.Sprintf("%s (default %q)", k.Help, fmt.Sprint(k.Default)))
		c.Flags().Lookup(name).Annotations = map[string][]string{setting: nil}
	}
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
			revision := "unknown"
			if info, ok := debug.ReadBuildInfo(); ok {
				for _, s := range info.Settings {
					if s.Key == "vcs.revision" {
						revision = s.Value
					}
				}
			}
			_, err := fmt.Fprintf(c.OutOrStdout(), "meshgate %s (revision %s, %s, %s/%s, for Envoy %s)\n",
				version, revision, runtime.Version(), runtime.GOOS, runtime.GOARCH, envoyVersion)
			return err
		},
	}
}
