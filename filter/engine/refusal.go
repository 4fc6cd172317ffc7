package engine

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/meshgate/meshgate/filter/contract"
)

const jsonType = "application/json; charset=utf-8"

const (
	descriptionMissing = "The access token is missing"
	descriptionInvalid = "The access token is invalid or has expired"
	descriptionUnbound = "The access token is global, but the current plugin is configured without 'global_credentials'"
)

// Refusals that do not depend on the configuration.
var (
	refuseUnavailable = answer(http.StatusServiceUnavailable, contract.ReasonAuthorityAway,
		message("The access token cannot be verified at the moment"), [2]string{"retry-after", "1"})
	refuseUnusable = answer(http.StatusServiceUnavailable, contract.ReasonRecordUnusable,
		message("The identity of the caller cannot be passed on"))
	refuseBroken = answer(http.StatusServiceUnavailable, contract.ReasonChainBroken,
		message("The configuration of this route cannot be used"))
	refuseOthers = answer(http.StatusForbidden, contract.ReasonOtherConsumer,
		message("The credentials belong to different consumers"))
	refuseNotGRPC = answer(http.StatusUnsupportedMediaType, contract.ReasonProtocol,
		message("Non-gRPC request matched gRPC route"))
	refuseOldHTTP      = inGRPC("Please use HTTP2 protocol", http.StatusUpgradeRequired)
	refuseNotWebSocket = answer(http.StatusBadRequest, contract.ReasonProtocol,
		message("The request is not a valid WebSocket handshake"))
)

// inGRPC refuses a client that speaks gRPC in the wrong place. The proxy may pass on only
// the grpc-message of the answer.
func inGRPC(text string, status int) *Refusal {
	r := answer(status, contract.ReasonProtocol, message(text), [2]string{"upgrade", "HTTP/2"})
	r.grpcText = text
	return r
}

// Unavailable refuses because no authority could be asked. Adapters send it if a look-up
// could not be started or did not finish, so that clients see one answer for one condition.
func Unavailable() *Refusal { return refuseUnavailable }

// refuseMissing has no error parameter in its challenge, as RFC 6750 section 3.1 wants for
// requests without any credential.
func refuseMissing(realm string) *Refusal {
	challenge := "Bearer"
	if realm != "" {
		challenge += " realm=" + quoted(realm)
	}
	return answer(http.StatusUnauthorized, contract.ReasonTokenMissing,
		oauthError("invalid_request", descriptionMissing), [2]string{"www-authenticate", challenge})
}

// invalid holds the refusals of a bad credential. All of them are the same answer to the
// client, which must not learn what is wrong with it. Each has a different reason for the
// log.
type invalid struct{ unknown, expired, revoked, elsewhere *Refusal }

// because makes the refusals from one answer.
func because(answer *Refusal, unknown, expired, revoked contract.Reason) (i invalid) {
	with := func(reason contract.Reason) *Refusal {
		r := *answer
		r.Reason = reason
		return &r
	}
	return invalid{with(unknown), with(expired), with(revoked), with(contract.ReasonWrongService)}
}

// of returns the refusal for an answer of the authority.
func (i *invalid) of(a contract.Answer) *Refusal {
	switch a {
	case contract.Expired:
		return i.expired
	case contract.Revoked:
		return i.revoked
	default:
		return i.unknown
	}
}

func refuseInvalid(realm string) invalid {
	return because(answer(http.StatusUnauthorized, contract.ReasonTokenUnknown,
		oauthError("invalid_token", descriptionInvalid), [2]string{"www-authenticate", invalidChallenge(realm)}),
		contract.ReasonTokenUnknown, contract.ReasonTokenExpired, contract.ReasonTokenRevoked)
}

// refuseUnbound explains the problem in the body. Its challenge is that of any other invalid
// token.
func refuseUnbound(realm string) *Refusal {
	return answer(http.StatusUnauthorized, contract.ReasonTokenUnbound,
		oauthError("invalid_token", descriptionUnbound), [2]string{"www-authenticate", invalidChallenge(realm)})
}

func refuseNoKey(realm string) *Refusal {
	return answer(http.StatusForbidden, contract.ReasonKeyMissing,
		message("No API key found in headers or query string"), keyChallenge(realm))
}

func refuseKey(realm string) invalid {
	return because(answer(http.StatusUnauthorized, contract.ReasonKeyUnknown, message("Unauthorized"), keyChallenge(realm)),
		contract.ReasonKeyUnknown, contract.ReasonKeyExpired, contract.ReasonKeyRevoked)
}

func refuseDuplicate(realm string) *Refusal {
	return answer(http.StatusUnauthorized, contract.ReasonKeyDuplicate, message("Duplicate API key found"), keyChallenge(realm))
}

func keyChallenge(realm string) [2]string {
	challenge := "Key"
	if realm != "" {
		challenge += " realm=" + quoted(realm)
	}
	return [2]string{"www-authenticate", challenge}
}

func refuseNoAnonymous(configured string) *Refusal {
	return answer(http.StatusInternalServerError, contract.ReasonAnonymousMissing,
		message("anonymous consumer "+configured+" is configured but doesn't exist"))
}

func invalidChallenge(realm string) string {
	var b strings.Builder
	b.WriteString("Bearer ")
	if realm != "" {
		b.WriteString("realm=" + quoted(realm) + ", ")
	}
	b.WriteString(`error="invalid_token", error_description=` + quoted(descriptionInvalid))
	return b.String()
}

// quoted returns a quoted-string of RFC 9110 section 5.6.4. Control characters become blanks
// (section 5.5), because a quoted-string cannot hold them and they could start a new header.
func quoted(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < 0x20 || c == 0x7f:
			b.WriteByte(' ')
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

func answer(status int, reason contract.Reason, body string, headers ...[2]string) *Refusal {
	return &Refusal{
		Status:     status,
		GRPCStatus: grpcStatus(status),
		Headers:    append([][2]string{{"content-type", jsonType}}, headers...),
		Body:       body,
		Reason:     reason,
	}
}

func message(text string) string {
	return encode(struct {
		Message string `json:"message"`
	}{text})
}

func oauthError(code, description string) string {
	return encode(struct {
		Error       string `json:"error"`
		Description string `json:"error_description"`
	}{code, description})
}

// encode writes JSON without the escapes that only HTML pages need.
func encode(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil { // two strings always encode
		panic(err)
	}
	return strings.TrimSuffix(b.String(), "\n")
}
