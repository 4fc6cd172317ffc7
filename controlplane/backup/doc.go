// Package backup writes the databases of a control plane into one file, while the
// control plane runs, and reads such files.
//
// A backup is a tar file. Its first entry is the manifest, which names all others with
// their digests, so that a reader knows what it should find before it finds it. The
// encryption key of the databases is in it only under a passphrase.
package backup

import "time"

// Format is the version of the files that this program writes and reads.
const Format = 1

// Names of what a backup holds.
const (
	// MainPart is the database of everything that is configured and issued.
	MainPart = "meshgate.db"
	// StatusPart is the database of what was observed.
	StatusPart = "status.db"
	// KeyPart is the encryption key under a passphrase, in the format of age.
	KeyPart = "encryption.key.age"

	manifestName = "manifest.json"
)

// Manifest says what a backup holds.
type Manifest struct {
	// Format is the version of the file.
	Format int `json:"format"`
	// Program is the version of the program that wrote it.
	Program string `json:"program"`
	// Incarnation and Revision are those of the store.
	Incarnation string `json:"incarnation"`
	Revision    uint64 `json:"revision"`
	// Time is when the backup began: everything acknowledged before is in it.
	Time time.Time `json:"time"`
	// Parts are the other entries, in their order.
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
