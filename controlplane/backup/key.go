package backup

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"filippo.io/age"
)

// maxWrapped bounds how much of a wrapped key is read.
const maxWrapped = 1 << 16

// Passphrase reads a passphrase from a file, without the line break at its end.
func Passphrase(path string) (string, error) {
	text, err := os.ReadFile(path) //nolint:gosec // the operator names this file
	if err != nil {
		return "", err
	}
	pass := strings.TrimRight(string(text), "\r\n")
	if pass == "" {
		return "", fmt.Errorf("%s holds no passphrase", path)
	}
	return pass, nil
}

// wrap writes a key file encrypted with a passphrase. `age -d` restores the file.
func wrap(keyFile, passphrase, path string) error {
	to, err := age.NewScryptRecipient(passphrase)
	if err != nil {
		return fmt.Errorf("preparing the passphrase: %w", err)
	}
	var sealed bytes.Buffer
	w, err := age.Encrypt(&sealed, to)
	if err != nil {
		return fmt.Errorf("wrapping the key: %w", err)
	}
	if _, err := io.WriteString(w, keyFile); err != nil {
		return fmt.Errorf("wrapping the key: %w", err)
	}
	if err := w.Close(); err != nil {
		return fmt.Errorf("wrapping the key: %w", err)
	}
	return os.WriteFile(path, sealed.Bytes(), 0o600)
}

// Unwrap returns the text of a key file that is encrypted with a passphrase.
func Unwrap(path, passphrase string) (string, error) {
	f, err := os.Open(path) //nolint:gosec // a part that Unpack wrote
	if err != nil {
		return "", err
	}
	defer f.Close() // it was only read
	from, err := age.NewScryptIdentity(passphrase)
	if err != nil {
		return "", fmt.Errorf("preparing the passphrase: %w", err)
	}
	r, err := age.Decrypt(io.LimitReader(f, maxWrapped), from)
	if err != nil {
		// The cause would not help: a wrong passphrase and a changed file look alike.
		return "", errors.New("the passphrase is not the one that the key in the backup was wrapped with")
	}
	text, err := io.ReadAll(io.LimitReader(r, maxWrapped))
	if err != nil {
		return "", fmt.Errorf("unwrapping the key: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}
