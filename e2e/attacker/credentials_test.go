package attacker_test

import (
	"encoding/base64"
	"maps"
	"net/http"
	"time"
)

// kind is what a secret is.
type kind int

const (
	token kind = iota
	key
)

// secret is a credential that an attacker may hold.
type secret struct {
	kind kind
	text string
	// live is false for one that has expired, was deleted or never existed.
	live bool
	// at is the target that a token is bound to; nil if to none.
	at *target
	// tells is what an upstream is told of who holds it.
	tells identity
}

// opens reports whether a secret is good at a target.
func (s *secret) opens(t *target) bool {
	switch {
	case !s.live:
		return false
	case s.kind == key:
		return t.has("key-auth")
	case s.at == nil:
		return t.global
	}
	return s.at == t || t.like != nil && s.at == t.like
}

// consumer is a developer with an application and a key.
type consumer struct{ id, username, customID, application, applicationID, clientSecret string }

// nobody is the anonymous consumer.
const nobody = "nobody"

var (
	alice     = &consumer{username: "alice", customID: "alice-4711", application: "alice-app", clientSecret: "alice-secret"}
	bob       = &consumer{customID: "bob-4712", application: "bob-app", clientSecret: "bob-secret"}
	consumers = []*consumer{alice, bob}
	// anonymous is the identity of nobody.
	anonymous identity
	// secrets are all that there are.
	secrets []*secret
)

// identity is a set of identity headers, with lower-case names.
type identity map[string]string

// identity is what every credential of a consumer tells.
func (p *consumer) identity() identity {
	i := identity{"x-consumer-id": p.id}
	if p.username != "" {
		i["x-consumer-username"] = p.username
	}
	if p.customID != "" {
		i["x-consumer-custom-id"] = p.customID
	}
	return i
}

// with adds to a copy.
func (i identity) with(more identity) identity {
	out := maps.Clone(i)
	maps.Copy(out, more)
	return out
}

// basic is the value of Authorization for the consumer's application.
func (p *consumer) basic() string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(p.application+":"+p.clientSecret))
}

// seedConsumers creates the consumers with what belongs to them alone.
func seedConsumers() {
	n := api.Must(201, http.MethodPost, "/consumers", map[string]any{"username": nobody}).JSON()
	anonymous = identity{"x-consumer-id": n["id"].(string), "x-consumer-username": nobody, "x-anonymous-consumer": "true"}
	for _, p := range consumers {
		doc := map[string]any{"custom_id": p.customID}
		if p.username != "" {
			doc["username"] = p.username
		}
		p.id, _ = api.Must(201, http.MethodPost, "/consumers", doc).JSON()["id"].(string)
		a := api.Must(201, http.MethodPost, "/consumers/"+p.id+"/oauth2", map[string]any{
			"name": p.application, "client_id": p.application, "client_secret": p.clientSecret, "redirect_uris": []string{"https://app.example/cb"},
		}).JSON()
		p.applicationID, _ = a["id"].(string)
	}
	if named("keys") != nil {
		seedKeys()
	}
	seedToken("unbound", alice, nil, nil)
	secrets = append(secrets, &secret{kind: token, text: "never-issued"}, &secret{kind: key, text: "never-created"})
}

// seedKeys gives each consumer a key, and takes one away from alice.
func seedKeys() {
	for _, p := range consumers {
		k := api.Must(201, http.MethodPost, "/consumers/"+p.id+"/key-auth", map[string]any{"key": p.application + "-key"}).JSON()
		secrets = append(secrets, &secret{
			kind: key, text: p.application + "-key", live: true, tells: p.identity().with(identity{"x-credential-identifier": k["id"].(string)}),
		})
	}
	gone := api.Must(201, http.MethodPost, "/consumers/"+alice.id+"/key-auth", map[string]any{"key": "deleted-key"}).JSON()
	api.Must(204, http.MethodDelete, "/consumers/"+alice.id+"/key-auth/"+gone["id"].(string), nil)
	secrets = append(secrets, &secret{kind: key, text: "deleted-key"})
}

// seedTokens creates the tokens of a target: of both consumers, and two that
// are good no longer.
func (t *target) seedTokens() {
	seedToken(t.name+"-of-alice", alice, t, nil)
	seedToken(t.name+"-of-bob", bob, t, map[string]any{"authenticated_userid": "user-1"})
	seedToken(t.name+"-expired", alice, t, map[string]any{"expires_in": 5, "created_at": time.Now().Add(-time.Minute).UnixMilli()}).live = false
	seedToken(t.name+"-deleted", alice, t, nil).live = false
	api.Must(204, http.MethodDelete, "/oauth2_tokens/"+t.name+"-deleted", nil)
}

// seedToken stores a token of a consumer's application. Its text is chosen, so
// that an attack of the same seed is the same.
func seedToken(text string, of *consumer, at *target, more map[string]any) *secret {
	doc := map[string]any{"credential": map[string]any{"id": of.applicationID}, "expires_in": 3600, "access_token": text, "scope": "email phone"}
	if at != nil {
		doc["service"] = map[string]any{"id": at.service}
	}
	maps.Copy(doc, more)
	api.Must(201, http.MethodPost, "/oauth2_tokens", doc)
	tells := of.identity().with(identity{"x-credential-identifier": of.application, "x-authenticated-scope": "email,phone"})
	if user, ok := doc["authenticated_userid"].(string); ok {
		tells["x-authenticated-userid"] = user
	}
	s := &secret{kind: token, text: text, live: true, at: at, tells: tells}
	secrets = append(secrets, s)
	return s
}
