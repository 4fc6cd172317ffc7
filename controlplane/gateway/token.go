package gateway

import (
	"strings"
	"time"

	"github.com/meshgate/meshgate/controlplane/model"
)

// TokenBearer is the only token type. Source: RFC 6750.
const TokenBearer = "bearer"

// tokenSchema describes access tokens. Times are in milliseconds, expires_in
// and ttl in seconds. Source: requirement "Access token".
var tokenSchema = &model.Schema{
	Key: "access_token", KeyIndex: TokenKey, CreatedUnit: time.Millisecond,
	Settle: settleToken, Present: presentToken,
}

// settleToken turns the relative ttl into the moment at which the row is
// dropped, and separates scopes by single blanks.
func settleToken(w *model.Write, now time.Time) error {
	settleTTL(w, now)
	if words := Words(given(w.New, "scope")); len(words) > 0 {
		w.New["scope"] = strings.Join(words, " ")
	}
	return nil
}

// settleTTL turns a ttl in seconds into drop_at; a null one means never.
func settleTTL(w *model.Write, now time.Time) {
	v, ok := w.Given["ttl"]
	if !ok {
		return
	}
	w.New["drop_at"] = nil
	if ttl, isSet := w.New["ttl"].(int64); isSet && v != nil {
		w.New["drop_at"] = now.UnixMilli() + ttl*1000
	}
}

// presentToken shows the remaining lifetime of the row in whole seconds.
func presentToken(r *model.Resource, out map[string]any, now time.Time) {
	out["ttl"] = remaining(r.Spec.(*Token).DropAt, now)
}

// remaining is the time until a moment in seconds, rounded up; nil for never.
func remaining(dropAt int64, now time.Time) any {
	if dropAt <= 0 {
		return nil
	}
	return max(0, (dropAt-now.UnixMilli()+999)/1000)
}

// Words splits a list of scopes: blanks separate them, and nothing else does.
// Source: RFC 6749 section 3.3.
func Words(scope string) []string {
	return strings.FieldsFunc(scope, func(r rune) bool { return r == ' ' })
}
