package httpkit

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"runtime/debug"
	"strings"
	"time"
)

// HeaderRequestID names a request in the response and the log. An id that the client sends
// is kept if it is short and plain.
const HeaderRequestID = "X-Request-Id"

// Entry is the log line of one request. Handlers fill it in, and it is written once, when
// the request is over. Instead of the path it holds the pattern of the endpoint, because
// keys of resources may be tokens. It never holds queries or bodies.
type Entry struct {
	ID      string
	Pattern string
	// Actor is the caller, once known; see model.Actor.ID.
	Actor string
	// Kind and Name are those of the resource that the request is about. Name is the name
	// under which it is stored, which is never a secret. It is not taken from the path.
	Kind, Name string
	Revision   uint64
	// DryRun says that the request asked what a write would do.
	DryRun bool
	// Trace is the id of the trace that the request is part of, or "".
	Trace string
	// Code is the domain code of the answer, such as a fault code.
	Code string
	// IssuerAway says that nobody can tell who the caller is, because the issuer of the token cannot be reached.
	IssuerAway bool
	// Cause is the internal error behind the answer. It is shown only in the log.
	Cause    error
	panicked bool // the handler panicked; Cause says why
	left     bool // Cause is that the client has left
	// Client is the address of the client behind trusted proxies; not valid elsewhere. See [Behind].
	Client netip.Addr
	// The call says where a request to an administration API comes from; see [Administered].
	Call
	refused func(Refusal) // learns of a refusal; may be nil
}

type entryKey struct{}

// EntryOf returns the entry of a request. Outside of [Observe] it returns an entry that
// nobody reads.
func EntryOf(ctx context.Context) *Entry {
	if e, ok := ctx.Value(entryKey{}).(*Entry); ok {
		return e
	}
	return new(Entry)
}

// Observe logs each request in one line when it ends, tells the meters, and turns a panic
// into the answer 500, so that one request cannot end the process.
func Observe(next http.Handler, log *slog.Logger, meters ...Meter) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		e := &Entry{ID: requestID(r)}
		rec := &recorder{ResponseWriter: w}
		rec.Header().Set(HeaderRequestID, e.ID)
		r = r.WithContext(context.WithValue(r.Context(), entryKey{}, e))
		defer func() {
			p := recover()
			asError, _ := p.(error)
			aborted := errors.Is(asError, http.ErrAbortHandler)
			if p != nil && !aborted {
				e.Cause, e.panicked = fmt.Errorf("panic: %v\n%s", p, debug.Stack()), true
				if !rec.wrote {
					WriteMessage(rec, http.StatusInternalServerError, TextInternal)
				}
			}
			took := time.Since(start)
			e.left = left(r, e.Cause) || rec.broken != nil && errors.Is(e.Cause, rec.broken)
			write(r.Context(), log, r, e, rec, took)
			e.tellRefusal(rec.status)
			if !rec.taken {
				for _, m := range meters {
					m.Served(Served{
						Method: BoundedMethod(r.Method), Pattern: e.Pattern, Status: rec.status, Took: took, Panicked: p != nil && !aborted,
					})
				}
			}
			if aborted || p != nil && rec.status < 500 {
				panic(http.ErrAbortHandler) // a half-written answer must not look complete
			}
		}()
		next.ServeHTTP(rec, r)
	})
}

// levelOf returns the level of a request in the log. A mistake of a client is no failure of
// this server, nor that it has left. A panic always is, no matter which status had been sent. Successful checks
// and scrapes get the lowest level, because they would bury everything else. So do scrapes that are
// refused, which anybody can cause at any rate.
func levelOf(e *Entry, status int) slog.Level {
	client := e.left || status >= http.StatusBadRequest && status < http.StatusInternalServerError
	switch {
	case e.Cause != nil && (e.panicked || !client):
		return slog.LevelError
	case e.Pattern == "/metrics", status == http.StatusOK && (e.Pattern == "/ready" || e.Pattern == "/live"):
		return slog.LevelDebug
	}
	return slog.LevelInfo
}

func write(ctx context.Context, log *slog.Logger, r *http.Request, e *Entry, rec *recorder, took time.Duration) {
	if !rec.wrote {
		rec.status = http.StatusOK // net/http sends this if a handler sends nothing
	}
	attrs := []slog.Attr{
		slog.String("request_id", e.ID), slog.String("method", r.Method), slog.String("pattern", e.Pattern),
		slog.Int("status", rec.status), slog.Int64("bytes", rec.bytes), slog.Duration("took", took),
		slog.String("remote", r.RemoteAddr),
	}
	if e.Client.IsValid() && e.Client != connectionOf(r) {
		attrs = append(attrs, slog.String("client", e.Client.String()))
	}
	for _, a := range []struct{ key, value string }{{"actor", e.Actor}, {"kind", e.Kind}, {"name", e.Name}} {
		if a.value != "" {
			attrs = append(attrs, slog.String(a.key, a.value))
		}
	}
	if e.DryRun {
		attrs = append(attrs, slog.Bool("dry_run", true))
	}
	if e.Revision != 0 {
		attrs = append(attrs, slog.Uint64("revision", e.Revision))
	}
	if e.Trace != "" {
		attrs = append(attrs, slog.String("trace_id", e.Trace))
	}
	if e.Code != "" {
		attrs = append(attrs, slog.String("code", e.Code))
	}
	if e.Cause != nil {
		attrs = append(attrs, slog.String("cause", e.Cause.Error()))
	}
	log.LogAttrs(ctx, levelOf(e, rec.status), "request", attrs...)
}

// recorder records the answer.
type recorder struct {
	http.ResponseWriter
	status int
	bytes  int64
	wrote  bool
	taken  bool  // by a handler that hijacked the connection
	broken error // why the answer could not be sent
}

// WriteHeader implements http.ResponseWriter.
func (r *recorder) WriteHeader(status int) {
	if !r.wrote && status >= 200 {
		r.wrote, r.status = true, status
	}
	r.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (r *recorder) Write(b []byte) (int, error) {
	if !r.wrote {
		r.wrote, r.status = true, http.StatusOK
	}
	n, err := r.ResponseWriter.Write(b)
	r.bytes += int64(n)
	if err != nil {
		r.broken = err
	}
	return n, err
}

// Unwrap serves http.ResponseController.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

func requestID(r *http.Request) string {
	id := r.Header.Get(HeaderRequestID)
	plain := func(c rune) bool {
		return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_'
	}
	if id != "" && len(id) <= 64 && !strings.ContainsFunc(id, func(c rune) bool { return !plain(c) }) {
		return id
	}
	var b [16]byte
	_, _ = rand.Read(b[:]) // documented never to return an error
	return hex.EncodeToString(b[:])
}
