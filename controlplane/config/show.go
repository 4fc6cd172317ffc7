package config

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// Mask stands for secrets.
const Mask = "[redacted]"

// Show prints every setting with its value, where it came from and the
// environment variable that sets it. Secrets are masked.
func (l *Loaded) Show(w io.Writer) error {
	effective := map[string]any{
		"stateDir":                 l.Config.StateDir,
		"store.sqlite.path":        l.Config.Store.SQLite.Path,
		"store.encryption.keyFile": l.Config.Store.Encryption.KeyFile,
		"backup.directory":         l.Config.Backup.Directory,
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(t, "SETTING\tVALUE\tFROM\tENVIRONMENT")
	for _, k := range Table {
		v := l.values[k.Name]
		if e, ok := effective[k.Name]; ok {
			v = e
		}
		if k.Secret && v != "" {
			v = Mask
		}
		_, _ = fmt.Fprintf(t, "%s\t%v\t%s\t%s\n", k.Name, v, l.Origin[k.Name], EnvName(k.Name))
	}
	return t.Flush()
}
