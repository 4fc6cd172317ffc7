package agent

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"os"

	"github.com/meshgate/meshgate/controlplane/enrol"
)

// passwordBytes is the length of the relay's password before it is written in hexadecimal.
const passwordBytes = 32

// relayPassword returns what Envoy shows to the relay. It is random, and made at the first
// start. It is kept, because a proxy that has run before starts on a full disk, where no other
// bootstrap could be written. A password that others could have read is replaced.
func (d *runDir) relayPassword() (string, error) {
	if info, err := os.Lstat(d.password); err == nil && info.Mode() == 0o600 {
		text, err := os.ReadFile(d.password)
		if raw, wrong := hex.DecodeString(string(text)); err == nil && wrong == nil && len(raw) == passwordBytes {
			return string(text), nil
		}
	}
	raw := make([]byte, passwordBytes)
	_, _ = rand.Read(raw) // it never fails
	password := hex.EncodeToString(raw)
	return password, replace(d.password, []byte(password))
}

// refresh makes the bootstrap of an earlier run again, for a start without the control plane.
// An agent of another version may have written it, or the password may be a new one.
func (d *runDir) refresh(a *Agent) error {
	if err := a.lentBefore(); err != nil {
		return err
	}
	was, err := os.ReadFile(d.bootstrap)
	if err != nil {
		return fmt.Errorf("run directory: %w", err)
	}
	text, err := a.proxy().bootstrap(&enrol.Answer{Node: a.NodeID(), Bootstrap: was})
	if err != nil {
		return fmt.Errorf("the bootstrap of the last run: %w", err)
	}
	return replace(d.bootstrap, text)
}

// redacted stands where a password was. Envoy writes the same for what it knows to be secret.
const redacted = "[redacted]"

// withheld is a stream in which a password is replaced. Envoy shows its bootstrap in its dumps,
// and does not take the metadata of its streams for secret.
type withheld struct {
	io.ReadCloser
	password []byte
	// ready is what can be read. held may end with a part of the password.
	ready, held []byte
	err         error
}

func withhold(from io.ReadCloser, password string) io.ReadCloser {
	return &withheld{ReadCloser: from, password: []byte(password)}
}

// Read implements io.Reader.
func (w *withheld) Read(p []byte) (int, error) {
	for len(w.ready) == 0 && w.err == nil {
		w.more()
	}
	if len(w.ready) == 0 {
		return 0, w.err
	}
	n := copy(p, w.ready)
	w.ready = w.ready[n:]
	return n, nil
}

// more reads a piece. It holds back what could be the beginning of a password.
func (w *withheld) more() {
	piece := make([]byte, 32<<10)
	n, err := w.ReadCloser.Read(piece)
	all := bytes.ReplaceAll(append(w.held, piece[:n]...), w.password, []byte(redacted))
	keep := min(len(all), len(w.password)-1)
	if err != nil {
		keep = 0
	}
	w.ready, w.held, w.err = all[:len(all)-keep], bytes.Clone(all[len(all)-keep:]), err
}
