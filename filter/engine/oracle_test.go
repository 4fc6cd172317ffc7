package engine_test

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"github.com/meshgate/meshgate/filter/contract"
)

// message is a request, in words.
type message struct {
	Method, Path string
	// Headers by lower-case name, without pseudo headers.
	Headers map[string][]string
	Body    string
}

// outcome is the result of a decision, in words.
type outcome struct {
	Action    string
	Status    int
	Body      string
	Challenge string
	// Remove, HideQuery and HideBody are sorted names.
	Remove, HideQuery, HideBody []string
	Headers                     map[string]string
	// Token is the credential to look up, written as its sort and its text.
	Token string
}

// knowledge is what the look-up says about a credential.
type knowledge struct {
	answer contract.Answer
	record *contract.Record
}

// oracle decides requests the slow way, on strings and maps. It follows the rules and shares
// no code with the engine.
type oracle struct {
	chain *contract.Chain
	msg   message
	ask   func(sort, text string) knowledge

	// credential is the last accepted credential, token the last accepted token.
	credential, token *contract.Record
	anonymous         *contract.Consumer
	remove, query     []string
	body              []string
	issuer            bool
	// looked says that the body has been read, for any name.
	looked bool
}

func (o *oracle) decide() outcome {
	if !sendable(o.chain.Service) {
		return refusal(503, `{"message":"The configuration of this route cannot be used"}`, "")
	}
	path, _, _ := strings.Cut(o.msg.Path, "?")
	path = strings.TrimSuffix(path, "/")
	issuing := strings.HasSuffix(path, "/oauth2/token") || strings.HasSuffix(path, "/oauth2/authorize")
	for _, p := range o.chain.Plugins {
		o.issuer = o.issuer || p.OAuth2 != nil && issuing && o.chain.Issues
	}
	for _, p := range o.chain.Plugins {
		var end *outcome
		switch {
		case p.OAuth2 != nil && !o.issuer:
			end = o.authenticate(p.OAuth2.Anonymous, func() (*contract.Record, *outcome) { return o.oauth2(p.OAuth2) })
		case p.KeyAuth != nil && (!o.issuer || p.KeyAuth.Anonymous == nil):
			if p.KeyAuth.SkipPreflight && o.msg.Method == "OPTIONS" {
				continue
			}
			end = o.authenticate(p.KeyAuth.Anonymous, func() (*contract.Record, *outcome) { return o.keyAuth(p.KeyAuth) })
		case p.Termination != nil && !o.issuer:
			end = o.terminate(p.Termination)
		}
		if end != nil {
			return *end
		}
	}
	if o.issuer {
		return outcome{Action: "issue", Remove: o.remove, HideQuery: o.query, HideBody: o.body}
	}
	return o.upstream()
}

// authenticate is the rule about one and several plugins. try returns the record of an
// accepted credential, or else a failure. An anonymous consumer may replace a failure whose
// action is 401.
func (o *oracle) authenticate(a *contract.Anonymous, try func() (*contract.Record, *outcome)) *outcome {
	if a != nil && o.credential != nil {
		return nil
	}
	record, failed := try()
	switch {
	case record != nil:
		o.credential, o.anonymous = record, nil
		if !record.Key {
			o.token = record
		}
		return nil
	case failed.Action != "401" || a == nil:
		if failed.Action == "401" {
			failed.Action = "refuse"
		}
		return failed
	case a.Consumer == nil:
		r := refusal(500, `{"message":"anonymous consumer `+a.Configured+` is configured but doesn't exist"}`, "")
		return &r
	}
	for _, v := range []string{a.Consumer.ID, a.Consumer.Username, a.Consumer.CustomID} {
		if !sendable(v) {
			r := refusal(503, `{"message":"The identity of the caller cannot be passed on"}`, "")
			return &r
		}
	}
	o.anonymous = a.Consumer
	return nil
}

// soft is a refusal that an anonymous consumer may replace.
func soft(status int, body, challenge string) *outcome {
	r := refusal(status, body, challenge)
	r.Action = "401"
	return &r
}

func (o *oracle) oauth2(c *contract.OAuth2) (*contract.Record, *outcome) {
	realm := ""
	if c.Realm != "" {
		realm = ` realm="` + c.Realm + `"`
	}
	missing := soft(401, `{"error":"invalid_request","error_description":"The access token is missing"}`, "Bearer"+realm)
	if realm != "" {
		realm += ","
	}
	const generic = "The access token is invalid or has expired"
	challenge := "Bearer" + realm + ` error="invalid_token", error_description="` + generic + `"`
	invalid := soft(401, `{"error":"invalid_token","error_description":"`+generic+`"}`, challenge)

	var token string
	var bare bool
	if values, ok := o.msg.Headers[c.Header]; ok {
		token, bare = values[0], true
		words := strings.FieldsFunc(token, func(r rune) bool { return strings.ContainsRune(" \t\n\v\f\r", r) })
		if len(words) == 2 && (asciiLower(words[0]) == "bearer" || asciiLower(words[0]) == "token") {
			token, bare = words[1], false
			o.hide(c.HideCredentials, &o.remove, c.Header)
		}
		if kind, _ := o.inQuery("access_token", false); bare && kind != "absent" {
			o.hide(c.HideCredentials, &o.query, "access_token")
		}
	} else {
		kind, value := o.inQuery("access_token", false)
		if kind != "absent" {
			o.hide(c.HideCredentials, &o.query, "access_token")
		} else if !c.InBody {
			return nil, missing
		} else if kind, value = o.inBody("access_token", false); kind != "absent" && o.media() == "application/x-www-form-urlencoded" {
			o.hide(c.HideCredentials, &o.body, "access_token")
		}
		if kind == "long" {
			return nil, invalid
		}
		token = value
	}
	switch {
	case token == "":
		return nil, missing
	case len(token) > 4096:
		return nil, invalid
	}
	record, end := o.lookUp("token", token)
	switch {
	case end != nil:
		return nil, end
	case record == nil || record.Key:
		return nil, invalid
	case record.Service == "" && !c.Global:
		r := refusal(401, `{"error":"invalid_token","error_description":"The access token is global, but the current plugin is configured without 'global_credentials'"}`, challenge)
		return nil, &r
	case record.Service != "" && record.Service != o.chain.Service:
		return nil, invalid
	}
	if bare {
		o.hide(c.HideCredentials, &o.remove, c.Header)
	}
	return o.usable(record)
}

func (o *oracle) keyAuth(c *contract.KeyAuth) (*contract.Record, *outcome) {
	challenge := "Key"
	if c.Realm != "" {
		challenge += ` realm="` + c.Realm + `"`
	}
	for _, name := range c.Names {
		kind, key := "absent", ""
		if values, ok := o.msg.Headers[name]; ok && c.InHeader {
			kind, key = "text", values[0]
			if len(values) > 1 {
				kind = "repeated"
			}
		}
		if kind == "absent" && c.InQuery {
			kind, key = o.inQuery(name, true)
		}
		if kind == "absent" && c.InBody {
			kind, key = o.inBody(name, true)
		}
		if kind == "absent" {
			continue
		}
		if _, ok := o.msg.Headers[name]; ok && c.InHeader {
			o.hide(c.HideCredentials, &o.remove, name)
		}
		if k, _ := o.inQuery(name, true); k != "absent" && c.InQuery {
			o.hide(c.HideCredentials, &o.query, name)
		}
		if o.looked && c.InBody {
			if k, _ := o.inBody(name, true); k != "absent" {
				o.hide(c.HideCredentials, &o.body, name)
			}
		}
		switch {
		case kind == "other":
			continue
		case kind == "repeated":
			return nil, soft(401, `{"message":"Duplicate API key found"}`, challenge)
		case kind == "long" || len(key) > 4096:
			return nil, soft(401, `{"message":"Unauthorized"}`, challenge)
		case key == "":
			return nil, soft(403, `{"message":"No API key found in headers or query string"}`, challenge)
		}
		record, end := o.lookUp("key", key)
		switch {
		case end != nil:
			return nil, end
		case record == nil || !record.Key:
			return nil, soft(401, `{"message":"Unauthorized"}`, challenge)
		}
		return o.usable(record)
	}
	return nil, soft(403, `{"message":"No API key found in headers or query string"}`, challenge)
}

func (o *oracle) hide(hidden bool, list *[]string, name string) {
	if hidden && !slices.Contains(*list, name) {
		*list = append(*list, name)
		slices.Sort(*list)
	}
}

// lookUp returns the record, or nothing for an unknown credential, or the final outcome.
func (o *oracle) lookUp(sort, text string) (*contract.Record, *outcome) {
	switch k := o.ask(sort, text); k.answer {
	case contract.Found:
		return k.record, nil
	case contract.Unknown:
		return nil, nil
	case contract.Miss:
		return nil, &outcome{Action: "lookup", Token: sort + " " + text}
	default:
		r := refusal(503, `{"message":"The access token cannot be verified at the moment"}`, "")
		return nil, &r
	}
}

func (o *oracle) usable(r *contract.Record) (*contract.Record, *outcome) {
	for _, v := range identity(r, r) {
		if !sendable(v) {
			end := refusal(503, `{"message":"The identity of the caller cannot be passed on"}`, "")
			return nil, &end
		}
	}
	one := slices.ContainsFunc(o.chain.Plugins, func(p contract.Plugin) bool { return p.OAuth2 != nil && p.OAuth2.OneConsumer })
	if one && o.credential != nil && o.credential.Consumer != nil && r.Consumer != nil && o.credential.Consumer.ID != r.Consumer.ID {
		end := refusal(403, `{"message":"The credentials belong to different consumers"}`, "")
		return nil, &end
	}
	return r, nil
}

func (o *oracle) terminate(t *contract.Termination) *outcome {
	answer := t.Default
	consumer := o.anonymous
	if o.credential != nil {
		consumer = o.credential.Consumer
	}
	if consumer != nil {
		if a, ok := t.Consumers[consumer.ID]; ok {
			answer = &a
		}
	}
	if answer == nil {
		return nil
	}
	if answer.Trigger != "" {
		_, header := o.msg.Headers[answer.Trigger]
		if kind, _ := o.inQuery(answer.Trigger, true); !header && kind == "absent" {
			return nil
		}
	}
	r := refusal(answer.Status, answer.Body, "")
	return &r
}

func (o *oracle) upstream() outcome {
	headers := map[string]string{}
	switch {
	case o.credential != nil:
		headers = identity(o.credential, o.token)
	case o.anonymous != nil:
		headers = map[string]string{
			"x-consumer-id": o.anonymous.ID, "x-consumer-custom-id": o.anonymous.CustomID, "x-consumer-username": o.anonymous.Username,
			"x-anonymous-consumer": "true",
		}
	}
	kept := map[string]string{}
	for name, value := range headers {
		if value != "" {
			kept[name] = value
		}
	}
	return outcome{Action: "continue", Remove: o.remove, HideQuery: o.query, HideBody: o.body, Headers: kept}
}

// identity returns the headers that name the consumer of a credential, and the scope and
// user of a token.
func identity(r, token *contract.Record) map[string]string {
	h := map[string]string{"x-credential-identifier": r.Credential.ClientID}
	if token != nil {
		h["x-authenticated-scope"] = strings.Join(strings.Split(token.Scope, " "), ",")
		h["x-authenticated-userid"] = token.UserID
	}
	if r.Consumer != nil {
		h["x-consumer-id"] = r.Consumer.ID
		h["x-consumer-custom-id"] = r.Consumer.CustomID
		h["x-consumer-username"] = r.Consumer.Username
	}
	return h
}

func (o *oracle) inQuery(name string, fold bool) (kind, value string) {
	_, q, _ := strings.Cut(o.msg.Path, "?")
	return inPairs(q, name, fold)
}

func (o *oracle) media() string {
	values := o.msg.Headers["content-type"]
	if len(values) == 0 {
		return ""
	}
	media, _, _ := strings.Cut(values[0], ";")
	return asciiLower(strings.Trim(media, " \t"))
}

func (o *oracle) inBody(name string, fold bool) (kind, value string) {
	if !slices.Contains([]string{"POST", "PUT", "PATCH"}, o.msg.Method) || len(o.msg.Body) > 1<<20 {
		return "absent", ""
	}
	o.looked = true
	switch o.media() {
	case "application/x-www-form-urlencoded":
		return inPairs(o.msg.Body, name, fold)
	case "application/json":
		return inObject(o.msg.Body, name, fold)
	}
	return "absent", ""
}

func inPairs(pairs, name string, fold bool) (kind, value string) {
	kind = "absent"
	all := strings.Split(pairs, "&")
	if len(all) > 1000 {
		return "other", ""
	}
	for _, pair := range all {
		n, v, valued := strings.Cut(pair, "=")
		if n, err := url.QueryUnescape(n); err != nil || !same(n, name, fold) {
			continue
		}
		if kind != "absent" {
			return "repeated", ""
		}
		decoded, err := url.QueryUnescape(v)
		switch {
		case !valued || err != nil || strings.Contains(v, ";"):
			kind = "other"
		case len(decoded) > 4096:
			kind = "long"
		default:
			kind, value = "text", decoded
		}
	}
	return kind, value
}

func inObject(body, name string, fold bool) (kind, value string) {
	kind = "absent"
	d := json.NewDecoder(strings.NewReader(body))
	if t, err := d.Token(); err != nil || t != json.Delim('{') || !json.Valid([]byte(body)) {
		return kind, ""
	}
	for d.More() {
		n, err := d.Token()
		if err != nil {
			return "absent", ""
		}
		var v any
		if err := d.Decode(&v); err != nil {
			return "absent", ""
		}
		if !same(n.(string), name, fold) {
			continue
		}
		if kind != "absent" {
			return "repeated", ""
		}
		switch v := v.(type) {
		case string:
			kind, value = "text", v
			if len(v) > 4096 {
				kind, value = "long", ""
			}
		case []any:
			kind = "repeated"
		default:
			kind = "other"
		}
	}
	return kind, value
}

func same(a, b string, fold bool) bool {
	if fold {
		a = asciiLower(a)
	}
	return a == b
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
