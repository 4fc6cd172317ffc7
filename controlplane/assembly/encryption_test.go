package assembly

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/seal"
)

// vault is a state directory with secrets, whose control plane may die at any step.
type vault struct {
	*testing.T
	dir     string
	cp      *ControlPlane
	secrets map[string]string
}

var errDied = errors.New("the process died here")

func newVault(t *testing.T) *vault {
	v := &vault{T: t, dir: t.TempDir(), secrets: map[string]string{}}
	v.start()
	t.Cleanup(func() { v.cp.close(t.Context()) })
	return v
}

func (v *vault) start() {
	v.Helper()
	cp, _ := stateOf(v.T, v.dir)
	if err := cp.openStore(v.Context()); err != nil {
		v.Fatal(err)
	}
	v.cp = cp
}

// restart starts a new process after a death.
func (v *vault) restart() {
	v.Helper()
	v.cp.close(v.Context())
	v.start()
}

// write stores n secrets and remembers their values.
func (v *vault) write(n int) {
	v.Helper()
	if _, err := v.cp.store.Update(v.Context(), model.Config, func(tx store.Tx) error {
		for i := range n {
			name := fmt.Sprintf("key %d", i)
			v.secrets[name] = fmt.Sprintf("secret %d %d", i, rand.Int())
			res := &model.Resource{Kind: gateway.Keys, Scope: model.DefaultControlPlane, Name: name, Spec: &gateway.Key{Key: v.secrets[name], Consumer: "ann"}}
			_, err := tx.Update(res, 0)
			if err != nil {
				_, err = tx.Create(res)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		v.Fatal(err)
	}
}

// check reads every secret.
func (v *vault) check() {
	v.Helper()
	if err := v.cp.store.View(v.Context(), func(r store.Reader) error {
		for name, secret := range v.secrets {
			res, err := r.Get(gateway.Keys, model.DefaultControlPlane, name)
			if err == nil && res.Spec.(*gateway.Key).Key != secret {
				err = errors.New("another secret")
			}
			if err == nil {
				_, err = r.Find(gateway.Keys, model.DefaultControlPlane, gateway.IndexKey, gateway.KeyAuthKey(secret))
			}
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		return nil
	}); err != nil {
		v.Fatal(err)
	}
}

// ids returns the ids of the keys in the key file.
func (v *vault) ids() []string {
	v.Helper()
	keys, err := seal.Load(v.file(), "")
	if err != nil {
		v.Fatal(err)
	}
	return keys.IDs()
}

func (v *vault) file() string { return filepath.Join(v.dir, "encryption.key") }

// rotate rotates and follows, as the control plane does.
func (v *vault) rotate(forgetOld bool) error {
	_, err := v.cp.encryption.rotate(v.Context(), forgetOld)
	if err == nil {
		err = v.cp.encryption.follow(v.Context())
	}
	return err
}

// TestEncryptionDiesAnywhere dies between any two steps of a rotation, with and without
// forgetting the old key. The next start reads everything and completes what was begun.
func TestEncryptionDiesAnywhere(t *testing.T) {
	for _, forgetOld := range []bool{false, true} {
		t.Run(fmt.Sprintf("forget %t", forgetOld), func(t *testing.T) {
			v := newVault(t)
			ann(v)
			v.write(250)
			died := 0
			for at := 1; ; at++ {
				before := v.ids()
				step := 0
				v.cp.encryption.between = func(string) error {
					if step++; step == at {
						return errDied
					}
					return nil
				}
				err := v.rotate(forgetOld)
				if err == nil {
					break
				}
				if !errors.Is(err, errDied) {
					t.Fatal(err)
				}
				died++
				v.restart()
				v.check()
				v.write(3)
				if err := v.cp.encryption.follow(t.Context()); err != nil {
					t.Fatal(err)
				}
				v.check()
				after := v.ids()
				rotated := at > 1 // a death at the first step changes nothing
				if (after[0] != before[0]) != rotated {
					t.Errorf("died at %d: keys %v became %v", at, before, after)
				}
				if want := len(before) + 1; forgetOld && len(after) != 1 || !forgetOld && rotated && len(after) != want {
					t.Errorf("died at %d: keys %v became %v", at, before, after)
				}
				v.restart() // the rows need only the newest key now
				v.check()
			}
			if died < 5 {
				t.Errorf("died %d times", died)
			}
			// The newest key alone opens all rows now.
			if v.cp.close(t.Context()); os.WriteFile(v.file(), []byte(firstLine(v)), 0o600) != nil {
				t.Fatal("the key file cannot be written")
			}
			v.start()
			v.check()
		})
	}
}

func firstLine(v *vault) string {
	text, err := os.ReadFile(v.file())
	if err != nil {
		v.Fatal(err)
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return line
}

// ann creates the consumer of these keys.
func ann(v *vault) {
	v.Helper()
	if _, err := v.cp.store.Update(v.Context(), model.Config, func(tx store.Tx) error {
		_, err := tx.Create(&model.Resource{Kind: gateway.Consumers, Scope: model.DefaultControlPlane, Name: "ann", Spec: &gateway.Consumer{Username: "ann"}})
		return err
	}); err != nil {
		v.Fatal(err)
	}
}

// TestEncryptionBackups: a backup needs the key of its time. The key file keeps that key
// unless it was to be forgotten. A backup under a passphrase contains all keys that it needs,
// even in the middle of a rotation.
func TestEncryptionBackups(t *testing.T) {
	v := newVault(t)
	ann(v)
	v.write(120)
	pass := textFile(t, "correct horse")
	before, _ := backedUp(t, v.dir)
	v.cp.encryption.between = func(step string) error {
		if step == "page" {
			return errDied
		}
		return nil
	}
	if err := v.rotate(false); !errors.Is(err, errDied) {
		t.Fatal(err)
	}
	middle, _ := backedUp(t, v.dir, "--passphrase-file", pass)
	v.cp.encryption.between = func(string) error { return nil }
	if err := v.cp.encryption.follow(t.Context()); err != nil {
		t.Fatal(err)
	}
	newest := textFile(t, firstLine(v))
	for name, tc := range map[string]struct {
		file, flag, key string
		opens           bool
	}{
		"before, with the key file":        {before, "--encryption-key-file", v.file(), true},
		"before, with the newest key only": {before, "--encryption-key-file", newest, false},
		"in the middle, by its passphrase": {middle, "--passphrase-file", pass, true},
		"in the middle, with the newest":   {middle, "--encryption-key-file", newest, false},
	} {
		into := filepath.Join(t.TempDir(), "state")
		_, err := restoreAs(v.T, tc.file, "--state-dir", into, tc.flag, tc.key)
		if (err == nil) != tc.opens {
			t.Errorf("%s: %v", name, err)
		}
		if !tc.opens {
			continue
		}
		r := &vault{T: t, dir: into, secrets: v.secrets}
		r.start()
		r.check()
		if err := r.cp.encryption.follow(t.Context()); err != nil {
			t.Error(err)
		}
		r.check()
		r.cp.close(t.Context())
	}
}

// TestEncryptionElsewhere: keys that come from settings or through a symbolic link are not
// changed here, and the refusal says what to do.
func TestEncryptionElsewhere(t *testing.T) {
	v := newVault(t)
	if err := errors.Join(os.Rename(v.file(), v.file()+".real"), os.Symlink(v.file()+".real", v.file())); err != nil {
		t.Fatal(err)
	}
	if err := v.rotate(false); err == nil || !strings.Contains(err.Error(), "a link") {
		t.Errorf("%v", err)
	}
	v.cp.encryption.fixed = "the key comes from a setting"
	if err := v.rotate(false); err == nil || !strings.Contains(err.Error(), "from a setting") {
		t.Errorf("%v", err)
	}
	var none *encryption
	if _, err := none.rotate(t.Context(), false); err == nil || !strings.Contains(err.Error(), "in memory") {
		t.Errorf("%v", err)
	}
	if keys, err := none.list(t.Context(), ""); len(keys) > 0 || err != nil {
		t.Errorf("%v, %v", keys, err)
	}
}
