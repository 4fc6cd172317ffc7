// Package backup writes the databases of a control plane into one file, while the
// control plane runs, and reads such files.
//
// A backup is a tar file. Its first entry is the manifest, which lists all other entries
// with their digests, so that a reader knows what to expect. The encryption key of the
// databases is included only under a passphrase.
package backup

import "time"

// Format is the version of the files that this program writes and reads.
const Format = 1

// Names of the parts of a backup.
const (
	// MainPart is the database of everything that is configured and issued.
	MainPart = "meshgate.db"
	// StatusPart is the database of observations.
	StatusPart = "status.db"
	// KeyPart is the encryption key under a passphrase, in the format of age.
	KeyPart = "encryption.key.age"

	manifestName = "manifest.json"
)

// Manifest describes the contents of a backup.
type Manifest struct {
	// Format is the version of the file.
	Format int `json:"format"`
	// Program is the version of the program that wrote it.
	Program string `json:"program"`
	// Incarnation and Revision are those of the store.
	Incarnation string `json:"incarnation"`
	Revision    uint64 `json:"revision"`
	// Time is when the backup began. Everything that was acknowledged before is in it.
	Time time.Time `json:"time"`
	// Parts are the other entries, in order.
	Parts []Part `json:"parts"`
}

// Part is one entry of a backup.
type Part struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// HasKey reports whether the encryption key is in the backup, under a passphrase.
func (m *Manifest) HasKey() bool {
	for _, p := range m.Parts {
		if p.Name == KeyPart {
			return true
		}
	}
	return false
}
