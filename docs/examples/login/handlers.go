package main

import (
	"bytes"
	"embed"
	"html/template"
	"log/slog"
	"net/http"
	"time"
)

//go:embed pages.html style.css
var files embed.FS

var pages = template.Must(template.ParseFS(files, "pages.html"))

// maxForm bounds what a form may hold in bytes.
const maxForm = 64 << 10

// app answers requests.
type app struct {
	directory    *directory
	sessions     *sessions
	gateway      *gateway
	passwordFlow bool
	log          *slog.Logger
}

func newApp(c *config, d *directory, log *slog.Logger) (*app, error) {
	g, err := newGateway(c)
	if err != nil {
		return nil, err
	}
	return &app{
		directory: d, gateway: g, passwordFlow: c.PasswordFlow, log: log,
		sessions: &sessions{secure: c.secure(), now: time.Now, byID: map[string]session{}},
	}, nil
}

// handler is the whole application.
func (a *app) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /authorize", a.showConsent)
	mux.HandleFunc("POST /consent", a.decide)
	mux.HandleFunc("GET /login", a.showLogin)
	mux.HandleFunc("POST /login", a.login)
	mux.HandleFunc("POST /logout", a.logout)
	mux.HandleFunc("GET /style.css", func(w http.ResponseWriter, r *http.Request) { http.ServeFileFS(w, r, files, "style.css") })
	if a.passwordFlow {
		mux.HandleFunc("POST /token", a.password)
	}
	// Besides the token in each form: what another site makes a browser send
	// does not get as far.
	guarded := new(http.CrossOriginProtection).Handler(mux)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, value := range hygiene {
			w.Header().Set(name, value)
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		guarded.ServeHTTP(w, r)
	})
}

// hygiene is on every answer. There is no form-action in the policy: browsers
// apply it to the redirect that follows the consent, which leads to the client.
// Source: RFC 9700 sections 4.2.4 and 4.16.
var hygiene = map[string]string{
	"Content-Security-Policy": "default-src 'none'; style-src 'self'; base-uri 'none'; frame-ancestors 'none'",
	"X-Frame-Options":         "DENY",
	"Referrer-Policy":         "no-referrer",
	"Cache-Control":           "no-store",
	"X-Content-Type-Options":  "nosniff",
}

// show renders a page.
func (a *app) show(w http.ResponseWriter, status int, page string, data any) {
	var out bytes.Buffer
	if err := pages.ExecuteTemplate(&out, page, data); err != nil {
		a.log.Error("a page cannot be rendered", "page", page, "error", err)
		http.Error(w, "Internal error", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = out.WriteTo(w) // nobody is left to tell
}

// refuse tells a user what is wrong, here and not at an address that a request
// names.
func (a *app) refuse(w http.ResponseWriter, status int, text string) {
	a.show(w, status, "message", map[string]string{"Title": "This does not work", "Text": text})
}
