package gatewayapi

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"slices"
	"strings"

	"github.com/google/uuid"
)

// cursorSum is the number of bytes of a hash that detects a cursor which was cut, changed or
// taken from another list. It need not be secret, because a cursor gives access to nothing.
const cursorSum = 8

// cursor returns the offset after the resource with the given id. It is a position in the
// order of ids and not a number of rows, so that creations and deletions between two pages
// move nothing else to another page. It also holds what the pages so far have left out.
func cursor(list, after string, g gaps) string {
	id := uuid.MustParse(after)
	return base64.RawURLEncoding.EncodeToString(slices.Concat(id[:], cursorMark(list, id, g.String()), []byte(g.String())))
}

// cursorMark returns a hash that binds an id to its list.
func cursorMark(list string, id uuid.UUID, missing string) []byte {
	sum := sha256.Sum256([]byte(list + "\n" + id.String() + missing))
	return sum[:cursorSum]
}

// readCursor returns the id after which a page starts, and what the pages before it have left
// out.
func readCursor(list, offset string) (after string, g gaps, err error) {
	if offset == "" {
		return "", g, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(offset, "="))
	if err != nil {
		return "", g, badOffset(offset, "bad base64 encoding")
	}
	const length = len(uuid.UUID{}) + cursorSum
	if len(raw) >= length {
		id, missing := uuid.UUID(raw[:len(uuid.UUID{})]), string(raw[length:])
		if bytes.Equal(raw[len(id):length], cursorMark(list, id, missing)) {
			return id.String(), readGaps(missing), nil
		}
	}
	return "", g, badOffset(offset, "it belongs to no page of this list")
}

func badOffset(offset, why string) error {
	text := "'" + offset + "' is not a valid offset: " + why
	return &problem{http.StatusBadRequest, errorBody{Code: 7, Name: "invalid offset", Message: text}}
}
