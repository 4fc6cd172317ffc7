package httpkit

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
)

// TextInternal is all that a client learns of an unexpected failure.
const TextInternal = "An unexpected error occurred"

// WriteJSON answers with a document.
func WriteJSON(w http.ResponseWriter, status int, document any) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(document); err != nil {
		WriteMessage(w, http.StatusInternalServerError, TextInternal)
		return err
	}
	return WriteBody(w, status, "application/json; charset=utf-8", bytes.TrimSuffix(b.Bytes(), []byte("\n")))
}

// WriteBody answers with an encoded document.
func WriteBody(w http.ResponseWriter, status int, mediaType string, body []byte) error {
	h := w.Header()
	h.Set("Content-Type", mediaType)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store") // documents hold secrets
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, err := w.Write(body)
	return err
}

// WriteMessage answers with {"message": text}. It ignores the error of a client that has
// gone.
func WriteMessage(w http.ResponseWriter, status int, text string) {
	_ = WriteJSON(w, status, map[string]string{"message": text})
}
