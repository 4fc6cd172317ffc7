package meshapi

import (
	"mime"
	"net/http"
	"strings"
)

// Media types of the API.
const (
	mediaJSON = "application/json"
	mediaText = "text/plain"
)

const textNotFound = "404: Page Not Found"

// page answers with plain text.
func page(w http.ResponseWriter, status int, text string) {
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text)) // a client that is gone is nobody's concern
}

// negotiate lets requests through whose body is JSON, if their method has one,
// and that accept what is produced. Text goes to everybody: the bare token is
// what all clients of its endpoints read, whatever they say they accept.
func negotiate(produces string, h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if (r.Method == http.MethodPut || r.Method == http.MethodPost) && !isJSON(r.Header.Get("Content-Type")) {
			page(w, http.StatusUnsupportedMediaType, "415: Unsupported Media Type")
			return
		}
		if produces != mediaText && !accepts(r.Header.Values("Accept"), produces) {
			page(w, http.StatusNotAcceptable, "406: Not Acceptable\n\nAvailable representations: "+produces)
			return
		}
		h(w, r)
	}
}

func isJSON(contentType string) bool {
	media, _, err := mime.ParseMediaType(contentType)
	return err == nil && media == mediaJSON
}

// accepts reports whether Accept headers admit a media type (RFC 9110, 12.5.1).
// Weights are not looked at: there is only one representation.
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
