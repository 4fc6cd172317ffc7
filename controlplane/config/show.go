package config

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/meshgate/meshgate/controlplane/fault"
)

// Mask is shown instead of secrets.
const Mask = "[redacted]"

// Show prints settings with their values, their sources, and their environment variables.
// Secrets are masked. Names select settings and sections, such as redis.url and redis;
// without names, all settings are shown.
func (l *Loaded) Show(w io.Writer, names ...string) error {
	picked, err := pick(names)
	if err != nil {
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(t, "SETTING\tVALUE\tFROM\tENVIRONMENT")
	for _, k := range picked {
		_, _ = fmt.Fprintf(t, "%s\t%v\t%s\t%s\n", k.Name, l.shown(k), l.Origin[k.Name], EnvName(k.Name))
	}
	return t.Flush()
}

// Explain prints what Show does in sentences, with the meaning of the settings. flag says how
// each setting is given as a flag.
func (l *Loaded) Explain(w io.Writer, flag func(Key) string, names ...string) error {
	picked, err := pick(names)
	if err != nil {
		return err
	}
	for _, k := range picked {
		value := cmp.Or(fmt.Sprint(l.shown(k)), `""`)
		if _, err := fmt.Fprintf(w, "%s: %s (%s)\n    %s\n    default %q; %s; %s\n", k.Name, value, l.Origin[k.Name], k.Help, fmt.Sprint(k.Default), EnvName(k.Name), flag(k)); err != nil {
			return err
		}
	}
	return nil
}

// pick returns the settings that are named, directly or by their section.
func pick(names []string) (out []Key, err error) {
	for _, name := range names {
		if !slices.ContainsFunc(Table, func(k Key) bool { return within(k.Name, name) }) {
			return nil, fault.New(fault.Invalid, "there is no setting %q; did you mean %q?", name, nearest(name))
		}
	}
	for _, k := range Table {
		if len(names) == 0 || slices.ContainsFunc(names, func(name string) bool { return within(k.Name, name) }) {
			out = append(out, k)
		}
	}
	return out, nil
}

// within reports whether a setting has the name, or is in the section with the name.
func within(key, name string) bool {
	return key == name || name != "" && strings.HasPrefix(key, strings.TrimSuffix(name, ".")+".")
}

// shown returns a value in the form in which it may be shown.
func (l *Loaded) shown(k Key) any {
	v := l.values[k.Name]
	switch k.Name {
	case "stateDir":
		v = l.Config.StateDir
	case "store.sqlite.path":
		v = l.Config.Store.SQLite.Path
	case "store.encryption.keyFile":
		v = l.Config.Store.Encryption.KeyFile
	case "backup.directory":
		v = l.Config.Backup.Directory
	}
	if k.Secret && v != "" {
		return Mask
	}
	return v
}
