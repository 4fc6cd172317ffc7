package meshapi

import (
	"bytes"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/yamldoc"
)

// The media types of the API.
const (
	mediaJSON = "application/json"
	mediaYAML = "application/yaml" // RFC 9512
	mediaText = "text/plain"
	mediaHTML = "text/html"
)

const textNotFound = "404: Page Not Found"

// page answers with plain text.
func page(w http.ResponseWriter, status int, text string) {
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text)) // an error means that the client is gone
}

// negotiate lets requests through if their body, if any, is JSON or YAML, and if they accept
// what is produced. Text is sent in any case: clients of its endpoints read the bare token,
// whatever they say they accept.
func negotiate(produces string, h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		hasBody := r.Method == http.MethodPut || r.Method == http.MethodPost
		if hasBody && mediaOf(r) == "" {
			page(w, http.StatusUnsupportedMediaType, "415: Unsupported Media Type")
			return
		}
		if produces != mediaText && !accepts(r.Header.Values("Accept"), produces) {
			page(w, http.StatusNotAcceptable, "406: Not Acceptable\n\nAvailable representations: "+produces)
			return
		}
		// Other bodies are not read: everybody can call GET /, and must not cause work.
		if hasBody {
			if err := fromYAML(w, r); err != nil {
				fail(w, r, opDecode, err)
				return
			}
		}
		h(w, r)
	}
}

// fromYAML replaces a YAML body by the same content in JSON.
func fromYAML(w http.ResponseWriter, r *http.Request) error {
	if mediaOf(r) != mediaYAML {
		return nil
	}
	raw, err := body(w, r)
	if err != nil {
		return err
	}
	if raw, err = yamldoc.JSON(r.Context(), raw, model.MaxDocument); err != nil {
		return err
	}
	r.Body = io.NopCloser(bytes.NewReader(raw))
	return nil
}

// mediaOf returns the media type of a body if it is supported, and "" otherwise.
func mediaOf(r *http.Request) string {
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch {
	case err != nil:
		return ""
	case media == mediaJSON:
		return mediaJSON
	case media == mediaYAML, media == "application/x-yaml", media == "text/yaml":
		return mediaYAML
	}
	return ""
}

// accepts reports whether Accept headers allow a media type (RFC 9110, 12.5.1). It ignores
// weights, because there is only one representation.
func accepts(headers []string, produces string) bool {
	if strings.Join(headers, "") == "" {
		return true
	}
	family, _, _ := strings.Cut(produces, "/")
	for _, header := range headers {
		for option := range strings.SplitSeq(header, ",") {
			media, _, _ := strings.Cut(option, ";")
			switch strings.ToLower(strings.TrimSpace(media)) {
			case "*/*", family + "/*", produces:
				return true
			}
		}
	}
	return false
}
