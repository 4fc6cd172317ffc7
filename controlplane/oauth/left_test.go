package oauth

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/controlplane/gateway"
)

// TestClientThatLeftIsNoError: if the client has left, nobody waits for the answer, and
// nothing here has failed.
func TestClientThatLeftIsNoError(t *testing.T) {
	w := newWorld(t, gateway.OAuth2Config{EnableClientCredentials: true})
	var log bytes.Buffer
	w.server.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	ctx, leave := context.WithCancel(t.Context())
	leave()
	r := handedOver(http.MethodPost, "/oauth2/token", "application/x-www-form-urlencoded", strings.NewReader("grant_type=client_credentials"))
	w.server.ServeHTTP(httptest.NewRecorder(), r.WithContext(ctx))
	if strings.Contains(log.String(), "level=ERROR") || !strings.Contains(log.String(), "the client has left") {
		t.Error(log.String())
	}
}
