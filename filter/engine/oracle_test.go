package engine_test

import (
	"strings"

	"github.com/meshgate/meshgate/filter/contract"
)

// outcome is what a decision comes to, in words.
type outcome struct {
	Action    string
	Status    int
	Body      string
	Challenge string
	Remove    bool
	Headers   map[string]string
	Token     string
}

// knowledge is what the look-up says about the token of a request.
type knowledge struct {
	answer contract.Answer
	record *contract.Record
}

// oracle decides a request the slow way, on strings, straight from the rules and
// without a line of the engine.
func oracle(c *contract.Chain, path, credential string, has bool, ask func(token string) knowledge) outcome {
	o := c.Plugins[0].OAuth2
	if !sendable(c.Service) {
		return refusal(503, `{"message":"The configuration of this route cannot be used"}`, "")
	}
	p, _, _ := strings.Cut(path, "?")
	p = strings.TrimSuffix(p, "/")
	if strings.HasSuffix(p, "/oauth2/token") || strings.HasSuffix(p, "/oauth2/authorize") {
		return outcome{Action: "issue"}
	}
	realm := ""
	if o.Realm != "" {
		realm = ` realm="` + o.Realm + `"`
	}
	token, schemed := credential, false
	words := strings.FieldsFunc(credential, func(r rune) bool { return strings.ContainsRune(" \t\n\v\f\r", r) })
	if len(words) == 2 && (asciiLower(words[0]) == "bearer" || asciiLower(words[0]) == "token") {
		token, schemed = words[1], true
	}
	if !has || token == "" {
		return fallback(o, schemed, refusal(401, `{"error":"invalid_request","error_description":"The access token is missing"}`, "Bearer"+realm))
	}
	if realm != "" {
		realm += ","
	}
	const generic = "The access token is invalid or has expired"
	challenge := "Bearer" + realm + ` error="invalid_token", error_description="` + generic + `"`
	invalid := refusal(401, `{"error":"invalid_token","error_description":"`+generic+`"}`, challenge)
	k := ask(token)
	switch k.answer {
	case contract.Miss:
		return outcome{Action: "lookup", Token: token}
	case contract.Unknown:
		return fallback(o, schemed, invalid)
	case contract.Found:
	default:
		return refusal(503, `{"message":"The access token cannot be verified at the moment"}`, "")
	}
	if k.record.Service == "" && !o.Global {
		return refusal(401, `{"error":"invalid_token","error_description":"The access token is global, but the current plugin is configured without 'global_credentials'"}`, challenge)
	}
	if k.record.Service != "" && k.record.Service != c.Service {
		return fallback(o, schemed, invalid)
	}
	return upstream(o.HideCredentials, identity(k.record))
}

func identity(r *contract.Record) map[string]string {
	h := map[string]string{
		"x-credential-identifier": r.Credential.ClientID,
		"x-authenticated-scope":   strings.Join(strings.Split(r.Scope, " "), ","),
		"x-authenticated-userid":  r.UserID,
	}
	if r.Consumer != nil {
		h["x-consumer-id"] = r.Consumer.ID
		h["x-consumer-custom-id"] = r.Consumer.CustomID
		h["x-consumer-username"] = r.Consumer.Username
	}
	return h
}

func fallback(o *contract.OAuth2, schemed bool, otherwise outcome) outcome {
	switch {
	case o.Anonymous == nil:
		return otherwise
	case o.Anonymous.Consumer == nil:
		return refusal(500, `{"message":"anonymous consumer `+o.Anonymous.Configured+` is configured but doesn't exist"}`, "")
	}
	return upstream(o.HideCredentials && schemed, map[string]string{
		"x-consumer-id":        o.Anonymous.Consumer.ID,
		"x-consumer-custom-id": o.Anonymous.Consumer.CustomID,
		"x-consumer-username":  o.Anonymous.Consumer.Username,
		"x-anonymous-consumer": "true",
	})
}

func upstream(remove bool, headers map[string]string) outcome {
	kept := map[string]string{}
	for name, value := range headers {
		if !sendable(value) {
			return refusal(503, `{"message":"The identity of the caller cannot be passed on"}`, "")
		}
		if value != "" {
			kept[name] = value
		}
	}
	return outcome{Action: "continue", Remove: remove, Headers: kept}
}

func refusal(status int, body, challenge string) outcome {
	return outcome{Action: "refuse", Status: status, Body: body, Challenge: challenge}
}

func sendable(s string) bool {
	for _, r := range s {
		if r < ' ' && r != '\t' || r == 0x7f {
			return false
		}
	}
	return strings.Trim(s, " \t") == s
}

func asciiLower(s string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, s)
}
