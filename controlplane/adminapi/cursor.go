package adminapi

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strings"

	"github.com/google/uuid"
)

// cursorSum is how many bytes of a hash tell a cursor that was cut, changed or
// taken from another list. It is no secret: a cursor gives access to nothing.
const cursorSum = 8

// cursor returns the offset after the resource with the given id. It names a
// place in the order of ids and not a number of rows, so that what is created or
// deleted meanwhile moves nothing else to another page.
func cursor(list, after string) string {
	id := uuid.MustParse(after)
	return base64.RawURLEncoding.EncodeToString(append(id[:], cursorMark(list, id)...))
}

// cursorMark binds an id to the list in which it is a place.
func cursorMark(list string, id uuid.UUID) []byte {
	sum := sha256.Sum256([]byte(list + "\n" + id.String()))
	return sum[:cursorSum]
}

// readCursor returns the id after which a page starts.
func readCursor(list, offset string) (string, error) {
	if offset == "" {
		return "", nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(offset, "="))
	if err != nil {
		return "", badOffset(offset, "bad base64 encoding")
	}
	id, err := uuid.FromBytes(raw[:min(len(raw), len(uuid.UUID{}))])
	if err != nil || !bytes.Equal(raw[len(id):], cursorMark(list, id)) {
		return "", badOffset(offset, "it belongs to no page of this list")
	}
	return id.String(), nil
}

func badOffset(offset, why string) error {
	text := "'" + offset + "' is not a valid offset: " + why
	return &problem{http.StatusBadRequest, document{Code: 7, Name: "invalid offset", Message: text}}
}
