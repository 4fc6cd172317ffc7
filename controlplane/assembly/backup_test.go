package assembly

import (
	"bytes"
	"encoding/base64"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/controlplane/backup"
	"github.com/meshgate/meshgate/controlplane/cli"
	"github.com/meshgate/meshgate/controlplane/config"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/revoke"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/seal"
	"github.com/meshgate/meshgate/controlplane/store/sqlstore"
)

// epochKind returns the kind that stores what the control plane remembers of Redis.
func epochKind() *model.Kind {
	kinds := revoke.Kinds()
	return kinds[slices.IndexFunc(kinds, func(k *model.Kind) bool { return k.Name == "revocation_epoch" })]
}

// original makes a state directory that is in use, holds a consumer and trusts a Redis.
func original(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	cp, _ := stateOf(t, dir)
	if err := cp.openStore(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cp.close(t.Context()) })
	if _, err := cp.store.Update(t.Context(), model.Config, func(tx store.Tx) error {
		_, err := tx.Create(&model.Resource{Kind: gateway.Consumers, Scope: model.DefaultControlPlane, Name: "con", Spec: &gateway.Consumer{Username: "ann"}})
		if err != nil {
			return err
		}
		_, err = tx.Create(&model.Resource{Kind: epochKind(), Name: "redis", Spec: &revoke.Epoch{Epoch: 7, Servers: []string{"s"}, Told: true, Clean: true}})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return dir
}

// textFile makes a file that only its owner can read.
func textFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// backupAs makes a backup as the command with these arguments does.
func backupAs(t *testing.T, args ...string) (string, error) {
	t.Helper()
	return asCommand(t, args, func(c *config.Config, file string, flags map[string]string, out io.Writer) error {
		return WriteBackup(t.Context(), c, file, flags["passphrase-file"], out)
	})
}

// restoreAs restores a backup as the command with these arguments does.
func restoreAs(t *testing.T, args ...string) (string, error) {
	t.Helper()
	return asCommand(t, args, func(c *config.Config, file string, flags map[string]string, out io.Writer) error {
		r := Restore{Config: c, File: file, KeyFile: flags["encryption-key-file"], PassphraseFile: flags["passphrase-file"], Log: slog.New(slog.DiscardHandler)}
		return r.Run(t.Context(), out)
	})
}

// asCommand takes a file name and pairs of a flag and its value. Flags that are settings go
// into the configuration; the others belong to the command.
func asCommand(t *testing.T, args []string, do func(c *config.Config, file string, flags map[string]string, out io.Writer) error) (string, error) {
	t.Helper()
	settings, flags := map[string]string{}, map[string]string{}
	for i := 1; i < len(args); i += 2 {
		name := strings.TrimPrefix(args[i], "--")
		if k := slices.IndexFunc(config.Table, func(k config.Key) bool { return cli.FlagName(k.Name) == name }); k >= 0 {
			settings[config.Table[k].Name] = args[i+1]
		} else {
			flags[name] = args[i+1]
		}
	}
	l, err := config.Load(config.Sources{Flags: settings, Uses: func(string) bool { return true }})
	if err != nil {
		return "", err
	}
	var out strings.Builder
	err = do(&l.Config, args[0], flags, &out)
	return out.String(), err
}

// backedUp makes a backup.
func backedUp(t *testing.T, dir string, args ...string) (file, output string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "b")
	output, err := backupAs(t, append([]string{file, "--state-dir", dir}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	return file, output
}

// TestRestore makes backups of a state directory in use: one without the key, and one with
// the key under a passphrase. It restores each into a new directory.
func TestRestore(t *testing.T) {
	dir := original(t)
	key, pass := filepath.Join(dir, "encryption.key"), textFile(t, "correct horse\n")
	before, err := sqlstore.Describe(t.Context(), filepath.Join(dir, "meshgate.db"))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		backup, restore []string
		says            string
	}{
		"key apart":  {nil, []string{"--encryption-key-file", key}, "The encryption key is NOT in it. It is in the file " + key},
		"passphrase": {[]string{"--passphrase-file", pass}, []string{"--passphrase-file", pass}, "The encryption key is in it, wrapped with the passphrase"},
	} {
		t.Run(name, func(t *testing.T) {
			file, out := backedUp(t, dir, c.backup...)
			if !strings.Contains(out, c.says) {
				t.Errorf("output %s", out)
			}
			into := filepath.Join(t.TempDir(), "new")
			out, err := restoreAs(t, append([]string{file, "--state-dir", into}, c.restore...)...)
			if err != nil || !strings.Contains(out, "Revoke again what was revoked after") {
				t.Fatalf("%s, %v", out, err)
			}
			for name := range filesOf(t, into) {
				if !slices.Contains([]string{"meshgate.db", "encryption.key"}, name) {
					t.Errorf("it holds %s", name)
				}
				if info, err := os.Stat(filepath.Join(into, name)); err != nil || info.Mode().Perm() != 0o600 {
					t.Errorf("%s: %v, %v", name, info.Mode(), err)
				}
			}
			after, err := sqlstore.Describe(t.Context(), filepath.Join(into, "meshgate.db"))
			if err != nil || after.Incarnation == before.Incarnation || after.Incarnation == "" || after.Revision != before.Revision {
				t.Errorf("%+v, %v; before %+v", after, err, before)
			}
			restored(t, into)
		})
	}
}

// restored checks what a restored state directory holds.
func restored(t *testing.T, dir string) {
	t.Helper()
	cp, _ := stateOf(t, dir)
	defer cp.close(t.Context())
	if err := cp.openStore(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := cp.store.View(t.Context(), func(r store.Reader) error {
		if _, err := r.Get(gateway.Consumers, model.DefaultControlPlane, "con"); err != nil {
			t.Error(err)
		}
		row, err := r.Get(epochKind(), "", "redis")
		if err != nil {
			return err
		}
		if e := row.Spec.(*revoke.Epoch); e.Epoch == 7 || e.Epoch == 0 || len(e.Servers) > 0 || e.Told || e.Clean {
			t.Errorf("it still believes %+v", e)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

// TestRestoreRefuses: a refused restore leaves nothing in the state directory.
func TestRestoreRefuses(t *testing.T) {
	dir := original(t)
	key := filepath.Join(dir, "encryption.key")
	pass, wrong := textFile(t, "correct horse"), textFile(t, "battery staple")
	other := textFile(t, base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, seal.RootSize)))
	apart, _ := backedUp(t, dir)
	wrapped, _ := backedUp(t, dir, "--passphrase-file", pass)
	data, err := os.ReadFile(apart)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 1
	damaged := textFile(t, string(data))
	stale := t.TempDir()
	if err := os.WriteFile(filepath.Join(stale, backup.StatusPart+"-wal"), []byte("of another control plane"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		file string
		args []string
		want string
	}{
		"a log of what is known of proxies": {apart, []string{"--encryption-key-file", key, "--store-sqlite-path", filepath.Join(stale, "meshgate.db")}, "there is a database"},

		"no key":                     {apart, nil, "the encryption key is not in the backup: give --encryption-key-file"},
		"no passphrase":              {wrapped, nil, "give --passphrase-file, because it is in the backup"},
		"a passphrase for nothing":   {apart, []string{"--passphrase-file", pass}, "the encryption key is not in the backup"},
		"the wrong passphrase":       {wrapped, []string{"--passphrase-file", wrong}, "the passphrase is not the one"},
		"the wrong key":              {apart, []string{"--encryption-key-file", other}, "was made with another encryption key than the given one"},
		"two keys":                   {wrapped, []string{"--encryption-key-file", key, "--passphrase-file", pass}, "give one"},
		"another key is configured":  {apart, []string{"--encryption-key-file", key, "--store-encryption-key-file", key}, "the settings name a key already, in the file " + key},
		"a damaged backup":           {damaged, []string{"--encryption-key-file", key}, "is damaged"},
		"no backup":                  {key, []string{"--encryption-key-file", key}, "it is no backup of meshgate"},
		"no file":                    {apart + "x", []string{"--encryption-key-file", key}, "no such file"},
		"a database somewhere else":  {apart, []string{"--store-sqlite-path", filepath.Join(dir, "meshgate.db")}, "there is a database"},
		"a directory in use":         {apart, []string{"--state-dir", dir}, "is not empty, it holds "},
		"no file with the given key": {apart, []string{"--encryption-key-file", key + "x"}, key + "x: no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			into := filepath.Join(t.TempDir(), "new")
			_, err := restoreAs(t, append([]string{c.file, "--state-dir", into}, c.args...)...)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if left, err := os.ReadDir(into); err == nil && len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

// TestBackupRefuses: a backup fails if there is nothing to back up, if the file already
// exists, and if the key is wrong.
func TestBackupRefuses(t *testing.T) {
	dir := original(t)
	file, _ := backedUp(t, dir)
	other := textFile(t, base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, seal.RootSize)))
	pass := textFile(t, "correct horse")
	free := filepath.Join(t.TempDir(), "b")
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"a file that exists":  {[]string{file, "--state-dir", dir}, "never written over another file"},
		"no database":         {[]string{free, "--state-dir", t.TempDir()}, "there is no database"},
		"a store in memory":   {[]string{free, "--state-dir", dir, "--store-type", "memory"}, "store.type is memory"},
		"no passphrase":       {[]string{free, "--state-dir", dir, "--passphrase-file", textFile(t, "\n")}, "holds no passphrase"},
		"the wrong key":       {[]string{free, "--state-dir", dir, "--passphrase-file", pass, "--store-encryption-key-file", other}, "the key is that of the file " + other},
		"no directory for it": {[]string{filepath.Join(free, "b"), "--state-dir", dir}, "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := backupAs(t, c.args...); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if _, err := os.Stat(free); err == nil {
				t.Error("there is a file")
			}
		})
	}
}
