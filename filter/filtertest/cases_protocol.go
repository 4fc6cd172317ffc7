package filtertest

var wantTerminated = Want{Outcome: Refused, Status: 503, Body: `{"message":"Service unavailable"}`, Headers: [][2]string{{"content-type", jsonType}}}

const terminated = `"default":{"status":503,"body":"{\"message\":\"Service unavailable\"}"}`

// terminationCases: answers in place of the upstream.
var terminationCases = []Case{
	{Name: "end", Chain: chainOf(endWith(terminated)), Request: spoofing("/"), Want: wantTerminated},
	{Name: "end-after-refusal", Chain: chainOf(oauth2With(""), endWith(terminated)), Request: request("/"), Want: wantMissing},
	{Name: "end-after-token", Chain: chainOf(oauth2With(""), endWith(terminated)), Tokens: everyToken, Request: request("/", "authorization", "token-full"), Want: wantTerminated},
	{Name: "end-not-on-issuing", Chain: chainOf(oauth2With(""), endWith(terminated)), Request: request("/oauth2/token"), Want: wantIssued},
	{Name: "end-consumer", Chain: chainOf(oauth2With(""), endWith(`"consumers":{"`+ConsumerID+`":{"status":451,"content_type":"text/plain","body":"no"}}`)), Tokens: everyToken,
		Request: request("/", "authorization", "token-full"), Want: Want{Outcome: Refused, Status: 451, Body: "no", Headers: [][2]string{{"content-type", "text/plain"}}}},
	{Name: "end-other-consumer", Chain: chainOf(oauth2With(""), endWith(`"consumers":{"`+OtherID+`":{"status":451}}`)), Tokens: everyToken,
		Request: request("/", "authorization", "token-full"), Want: wantFull},
	{Name: "end-consumer-before-default", Chain: chainOf(oauth2With(""), endWith(terminated+`,"consumers":{"`+ConsumerID+`":{"status":451,"body":"x"}}`)), Tokens: everyToken,
		Request: request("/", "authorization", "token-full"), Want: Want{Outcome: Refused, Status: 451, Body: "x"}},
	{Name: "end-default-other-consumer", Chain: chainOf(keyWith(""), endWith(terminated+`,"consumers":{"`+ConsumerID+`":{"status":451,"body":"x"}}`)), Tokens: everyToken,
		Request: request("/", "apikey", "key-1"), Want: wantTerminated},
	{Name: "end-anonymous", Chain: chainOf(oauth2With(orAnonymous), endWith(`"consumers":{"`+AnonymousID+`":{"status":401,"body":"x"}}`)), Tokens: everyToken,
		Request: request("/"), Want: Want{Outcome: Refused, Status: 401, Body: "x"}},
	{Name: "end-trigger-absent", Chain: chainOf(endWith(triggered)), Request: spoofing("/"), Want: Want{Outcome: Proxied}},
	{Name: "end-trigger-header", Chain: chainOf(endWith(triggered)), Request: request("/", "X-Stop", ""), Want: Want{Outcome: Refused, Status: 418, Body: "tea"}},
	{Name: "end-trigger-query", Chain: chainOf(endWith(triggered)), Request: request("/?X-Stop"), Want: Want{Outcome: Refused, Status: 418, Body: "tea"}},
	{Name: "end-no-content", Chain: chainOf(endWith(`"default":{"status":204,"body":"x"}`)), Request: request("/"), Want: Want{Outcome: Refused, Status: 204, NoHeaders: []string{"content-type"}}},
	{Name: "end-success", Chain: chainOf(endWith(`"default":{"status":200,"body":"fine"}`)), Request: request("/"), Want: Want{Outcome: Refused, Status: 200, Body: "fine"}},
	{Name: "end-grpc", Chain: chainOf(endWith(terminated)), Request: grpc("/a.B/C"), Want: Want{Outcome: Refused, GRPCStatus: "14", GRPCMessage: "Unavailable"}},
	{Name: "end-grpc-forbidden", Chain: chainOf(endWith(`"default":{"status":403}`)), Request: grpc("/a.B/C"), Want: Want{Outcome: Refused, GRPCStatus: "7", GRPCMessage: "PermissionDenied"}},
	{Name: "end-grpc-too-many", Chain: chainOf(endWith(`"default":{"status":429}`)), Request: grpc("/a.B/C"), Want: Want{Outcome: Refused, GRPCStatus: "8", GRPCMessage: "ResourceExhausted"}},
	{Name: "end-grpc-other", Chain: chainOf(endWith(`"default":{"status":418}`)), Request: grpc("/a.B/C"), Want: Want{Outcome: Refused, GRPCStatus: "3", GRPCMessage: "InvalidArgument"}},
	{Name: "end-grpc-gateway", Chain: chainOf(endWith(`"default":{"status":504}`)), Request: grpc("/a.B/C"), Want: Want{Outcome: Refused, GRPCStatus: "4", GRPCMessage: "DeadlineExceeded"}},
	{Name: "end-too-many-triggers", Chain: chainOf(endWith(`"default":{"status":503,"trigger":"a"},"consumers":{"1":{"status":503,"trigger":"b"},"2":{"status":503,"trigger":"c"},` +
		`"3":{"status":503,"trigger":"d"},"4":{"status":503,"trigger":"e"},"5":{"status":503,"trigger":"f"},"6":{"status":503,"trigger":"g"},` +
		`"7":{"status":503,"trigger":"h"},"8":{"status":503,"trigger":"i"}}`)), Request: request("/"), Want: wantBroken},
}

const triggered = `"default":{"status":418,"body":"tea","trigger":"x-stop"}`

// handshake holds the headers of the opening handshake in RFC 6455 section 1.3.
var handshake = []string{"connection", "keep-alive, Upgrade", "upgrade", "websocket",
	"sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==", "sec-websocket-version", "13"}

// shaking returns a handshake with one header changed. An empty value leaves the header out.
func shaking(name, value string) Request {
	r := Request{Path: "/"}
	for i := 0; i < len(handshake); i += 2 {
		h := [2]string{handshake[i], handshake[i+1]}
		if h[0] == name {
			h[1] = value
		}
		if h[1] != "" {
			r.Headers = append(r.Headers, h)
		}
	}
	return r
}

const notWebSocket = `{"message":"The request is not a valid WebSocket handshake"}`

var wantNotWebSocket = Want{Outcome: Refused, Status: 400, Body: notWebSocket, NoHeaders: []string{"www-authenticate"},
	Headers: [][2]string{{"content-type", jsonType}}}

var wantNotGRPC = Want{Outcome: Refused, Status: 415, Body: `{"message":"Non-gRPC request matched gRPC route"}`,
	NoHeaders: []string{"www-authenticate"}, Headers: [][2]string{{"content-type", jsonType}}}

// protocolCases: routes that accept only one protocol.
var protocolCases = []Case{
	{Name: "grpc-route", Chain: speaking("grpc"), Request: by(grpc("/a.B/C"), spoofs), Want: Want{Outcome: Proxied}},
	{Name: "grpc-route-plugin", Chain: speaking("grpc", oauth2With("")), Tokens: everyToken, Request: grpc("/a.B/C", "authorization", "bearer token-full"), Want: wantFull},
	{Name: "grpc-route-refused", Chain: speaking("grpc", oauth2With("")), Request: grpc("/a.B/C"), Want: Want{Outcome: Refused, GRPCStatus: "16", GRPCMessage: "Unauthenticated"}},
	{Name: "grpc-route-http", Chain: speaking("grpc", oauth2With("")), Request: request("/"), Want: wantNotGRPC},
	{Name: "grpc-route-json", Chain: speaking("grpc"), Request: sending("/", "application/json", "{}"), Want: wantNotGRPC},
	{Name: "grpc-route-web", Chain: speaking("grpc"), Request: by(sending("/", "application/grpc-web", ""), func(r *Request) { r.HTTP2 = true }), Want: wantNotGRPC},
	{Name: "grpc-route-issuing", Chain: speaking("grpc", oauth2With("")), Request: sending("/oauth2/token", formType, "grant_type=client_credentials"), Want: wantNotGRPC},
	// Envoy answers gRPC requests in the form of gRPC over HTTP/1 too, where the status is
	// lost.
	{Name: "grpc-route-http1", Chain: speaking("grpc", oauth2With("")), Request: by(grpc("/a.B/C"), func(r *Request) { r.HTTP2 = false }),
		Want: Want{Outcome: Refused, GRPCStatus: "3", GRPCMessage: "Please use HTTP2 protocol", NoHeaders: []string{"www-authenticate"}}},
	{Name: "grpc-body-not-read", Chain: chainPlain, Tokens: everyToken, Request: by(grpc("/a.B/C"), func(r *Request) { r.Body = "access_token=token-full" }),
		Want: Want{Outcome: Refused, GRPCStatus: "16", GRPCMessage: "Unauthenticated"}},

	{Name: "ws-route", Chain: speaking("ws"), Request: by(shaking("", ""), spoofs), Want: Want{Outcome: Proxied, Upstream: [][2]string{{"upgrade", "websocket"}}}},
	{Name: "ws-route-token", Chain: speaking("ws", oauth2With("")), Tokens: everyToken, Request: by(shaking("", ""), func(r *Request) { r.Path = "/?access_token=token-full" }), Want: wantFull},
	{Name: "ws-route-case", Chain: speaking("ws"), Request: shaking("upgrade", "WebSocket"), Want: Want{Outcome: Proxied}},
	{Name: "ws-route-http", Chain: speaking("ws", oauth2With("")), Request: spoofing("/"), Want: wantNotWebSocket},
	{Name: "ws-route-issuing", Chain: speaking("ws", oauth2With("")), Request: sending("/oauth2/token", formType, "grant_type=client_credentials"), Want: wantNotWebSocket},
	{Name: "ws-route-no-key", Chain: speaking("ws"), Request: shaking("sec-websocket-key", ""), Want: wantNotWebSocket},
	{Name: "ws-route-bad-key", Chain: speaking("ws"), Request: shaking("sec-websocket-key", "dGhlIHNhbXBsZQ=="), Want: wantNotWebSocket},
	{Name: "ws-route-no-base64", Chain: speaking("ws"), Request: shaking("sec-websocket-key", "dGhlIHNhbXBs!SBub25jZQ=="), Want: wantNotWebSocket},
	{Name: "ws-route-old-version", Chain: speaking("ws"), Request: shaking("sec-websocket-version", "8"), Want: wantNotWebSocket},
	{Name: "ws-route-no-version", Chain: speaking("ws"), Request: shaking("sec-websocket-version", ""), Want: wantNotWebSocket},
	{Name: "ws-route-no-upgrade", Chain: speaking("ws"), Request: shaking("upgrade", ""), Want: wantNotWebSocket},
	{Name: "ws-route-no-connection", Chain: speaking("ws"), Request: shaking("connection", ""), Want: wantNotWebSocket},
	{Name: "ws-route-post", Chain: speaking("ws"), Request: by(shaking("", ""), func(r *Request) { r.Method = "POST" }), Want: wantNotWebSocket},
	{Name: "ws-route-no-token", Chain: speaking("ws", oauth2With("")), Request: shaking("", ""), Want: wantMissing},
	{Name: "ws-route-bad-token", Chain: speaking("ws", oauth2With("")), Tokens: everyToken, Request: by(shaking("", ""), func(r *Request) { r.Path = "/?access_token=x" }), Want: wantInvalid},
}

func spoofs(r *Request) { r.Headers = append(r.Headers, spoofed...) }
