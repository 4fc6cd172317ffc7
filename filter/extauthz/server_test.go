package extauthz

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/host"
	"github.com/meshgate/meshgate/filter/host/hosttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const plain = `{"route":"r","service":"s","plugins":[{"id":"plugin-1","oauth2":{"header":"authorization"}}]}`

// newServer makes a server whose first level knows the token "good".
func newServer(t *testing.T, log *hosttest.Log, tokens host.Tokens) *Server {
	t.Helper()
	s, err := New(host.NewLogger(log), func(*host.Host) (host.Tokens, error) { return tokens, nil })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// request returns what Envoy asks about. headers are pairs.
func request(chain string, headers ...string) *authv3.CheckRequest {
	raw := &corev3.HeaderMap{}
	for i := 0; i < len(headers); i += 2 {
		raw.Headers = append(raw.Headers, &corev3.HeaderValue{Key: headers[i], RawValue: []byte(headers[i+1])})
	}
	return &authv3.CheckRequest{Attributes: &authv3.AttributeContext{
		Request:           &authv3.AttributeContext_Request{Http: &authv3.AttributeContext_HttpRequest{HeaderMap: raw}},
		ContextExtensions: map[string]string{contract.AuthzChain: chain},
	}}
}

// statusOf returns the status of the answer to the client, or 0 if the request goes on.
func statusOf(t *testing.T, s *Server, q *authv3.CheckRequest) int {
	t.Helper()
	r, err := s.Check(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	if r.GetOkResponse() != nil {
		return 0
	}
	if r.GetDeniedResponse() == nil {
		t.Fatal("neither passed nor refused")
	}
	return int(r.GetDeniedResponse().GetStatus().GetCode())
}

// TestProtocols: a route for gRPC takes HTTP/2 and what came later, and no older protocol.
func TestProtocols(t *testing.T) {
	s := newServer(t, &hosttest.Log{}, hosttest.NewTokens("good"))
	chain := strings.Replace(plain, `"service":"s"`, `"service":"s","protocol":"grpc"`, 1)
	for protocol, want := range map[string]int{"": 426, "HTTP/1.0": 426, "HTTP/1.1": 426, "HTTP/2": 0, "HTTP/3": 0} {
		q := request(chain, ":path", "/", "content-type", "application/grpc", "authorization", "Bearer good")
		q.Attributes.Request.Http.Protocol = protocol
		if got := statusOf(t, s, q); got != want {
			t.Errorf("%q: status %d, want %d", protocol, got, want)
		}
	}
}

// TestSchemeIsThatOfTheConnection: Envoy says whether the client's connection is encrypted and
// where it comes from, and the request cannot. Tokens are issued over TLS only.
func TestSchemeIsThatOfTheConnection(t *testing.T) {
	s := newServer(t, &hosttest.Log{}, hosttest.NewTokens("good"))
	q := request(strings.Replace(plain, `"service":"s"`, `"service":"s","issues":true`, 1), ":path", "/oauth2/token", ":scheme", "https")
	q.Attributes.ContextExtensions[contract.AuthzIssue] = "true"
	q.Attributes.Request.Http.Scheme = "https"
	q.Attributes.Source = &authv3.AttributeContext_Peer{Address: &corev3.Address{Address: &corev3.Address_SocketAddress{
		SocketAddress: &corev3.SocketAddress{Address: "192.0.2.7", PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: 4711}},
	}}}
	for want, session := range map[string]*authv3.AttributeContext_TLSSession{"http": {}, "https": {Sni: "x"}} {
		q.Attributes.TlsSession = session
		r, err := s.Check(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		set := map[string]string{}
		for _, h := range r.GetOkResponse().GetHeaders() {
			set[h.GetHeader().GetKey()] = h.GetHeader().GetValue()
		}
		if set[contract.HeaderOAuthScheme] != want || set[contract.HeaderOAuthPlugin] != "plugin-1" || set[contract.HeaderOAuthClient] != "192.0.2.7" {
			t.Errorf("want %s, handed over with %v", want, set)
		}
	}
}

// TestListenerSaysTheScheme: a listener that says how its clients are connected is believed,
// whether a client has sent a server name or not.
func TestListenerSaysTheScheme(t *testing.T) {
	s := newServer(t, &hosttest.Log{}, hosttest.NewTokens("good"))
	q := request(strings.Replace(plain, `"service":"s"`, `"service":"s","issues":true`, 1), ":path", "/oauth2/token")
	q.Attributes.ContextExtensions[contract.AuthzIssue] = contract.AuthzTrue
	for _, sni := range []string{"", "x"} {
		q.Attributes.TlsSession = &authv3.AttributeContext_TLSSession{Sni: sni}
		for _, scheme := range []string{"http", "https"} {
			ctx := metadata.NewIncomingContext(t.Context(), metadata.Pairs(contract.AuthzScheme, scheme))
			r, err := s.Check(ctx, q)
			if err != nil {
				t.Fatal(err)
			}
			for _, h := range r.GetOkResponse().GetHeaders() {
				if got := h.GetHeader(); got.GetKey() == contract.HeaderOAuthScheme && got.GetValue() != scheme {
					t.Errorf("server name %q: %s, want %s", sni, got.GetValue(), scheme)
				}
			}
		}
	}
}

// TestListenerSaysTheClient: behind a load balancer the client is who the listener says, by a
// header that it has written. A header that it does not name tells nothing.
func TestListenerSaysTheClient(t *testing.T) {
	s := newServer(t, &hosttest.Log{}, hosttest.NewTokens("good"))
	for _, c := range []struct{ named, said, want string }{
		{"", "192.0.2.1", "198.51.100.7"}, {"x-peer", "192.0.2.1", "192.0.2.1"}, {"x-peer", "2001:db8::1", "2001:db8::1"},
		{"x-peer", "198.51.100.7", "198.51.100.7"}, {"x-peer", "", "198.51.100.7"}, {"x-peer", "somebody", "198.51.100.7"}, {"x-other", "192.0.2.1", "198.51.100.7"},
	} {
		q := request(strings.Replace(plain, `"service":"s"`, `"service":"s","issues":true`, 1), ":path", "/oauth2/token", "x-peer", c.said)
		q.Attributes.ContextExtensions[contract.AuthzIssue] = contract.AuthzTrue
		q.Attributes.Source = &authv3.AttributeContext_Peer{Address: &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
			Address: "198.51.100.7", PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: 4000},
		}}}}
		ctx := t.Context()
		if c.named != "" {
			ctx = metadata.NewIncomingContext(ctx, metadata.Pairs(contract.AuthzClient, c.named))
		}
		r, err := s.Check(ctx, q)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, h := range r.GetOkResponse().GetHeaders() {
			if h.GetHeader().GetKey() == contract.HeaderOAuthClient {
				got = h.GetHeader().GetValue()
			}
		}
		if got != c.want {
			t.Errorf("%+v: handed over for %q", c, got)
		}
	}
}

// TestProtoOfTrustedProxies: what a trusted proxy said of the scheme, which the listener has
// noted, reaches the OAuth server and nobody else.
func TestProtoOfTrustedProxies(t *testing.T) {
	s := newServer(t, &hosttest.Log{}, hosttest.NewTokens("good"))
	for path, keeps := range map[string]bool{"/oauth2/token": true, "/x": false} {
		q := request(strings.Replace(plain, `"service":"s"`, `"service":"s","issues":true`, 1), ":path", path, "authorization", "Bearer good", contract.HeaderOAuthProto, "https")
		q.Attributes.ContextExtensions[contract.AuthzIssue] = contract.AuthzTrue
		r, err := s.Check(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		if removed := slices.Contains(r.GetOkResponse().GetHeadersToRemove(), contract.HeaderOAuthProto); removed == keeps || r.GetOkResponse() == nil {
			t.Errorf("%s: removed is %t", path, removed)
		}
	}
}

// TestNotes: every request is counted once, and what the access log cannot know otherwise is
// noted on it.
func TestNotes(t *testing.T) {
	s := newServer(t, &hosttest.Log{}, hosttest.NewTokens("good"))
	issuing := strings.Replace(plain, `"service":"s"`, `"service":"s","issues":true`, 1)
	for _, tc := range []struct{ path, token, want string }{
		{"/x", "Bearer good", "  "},
		{"/x", "Bearer bad", "refused token_unknown "},
		{"/oauth2/token", "", "issued  orders"},
	} {
		q := request(issuing, ":path", tc.path, "authorization", tc.token)
		q.Attributes.ContextExtensions[contract.AuthzIssue] = contract.AuthzTrue
		q.Attributes.RouteMetadataContext = &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{
			contract.MetadataNamespace: {Fields: map[string]*structpb.Value{contract.MetaRoute: structpb.NewStringValue("orders")}},
		}}
		r, err := s.Check(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		note, got := r.GetDynamicMetadata().GetFields(), ""
		if note != nil {
			got = note[contract.MetaDecision].GetStringValue() + " " + note[contract.MetaReason].GetStringValue() + " " + note[contract.MetaRoute].GetStringValue()
		}
		if got != tc.want {
			t.Errorf("%s: noted %q, want %q", tc.path, got, tc.want)
		}
		if state := note[contract.StateOAuth].GetStringValue(); (state == contract.StateHandedOver) != strings.HasPrefix(got, string(contract.Issued)) {
			t.Errorf("%s: as the state of the hand-over is noted %q", tc.path, state)
		}
	}
	want := Decisions{Allowed: 1, Issued: 1, Refused: map[contract.Reason]uint64{contract.ReasonTokenUnknown: 1}}
	if diff := cmp.Diff(want, s.Decisions()); diff != "" {
		t.Errorf("counted (-want +got):\n%s", diff)
	}
}

// TestRawHeadersAreNeeded: without raw headers two values look like one.
func TestRawHeadersAreNeeded(t *testing.T) {
	log := &hosttest.Log{}
	s := newServer(t, log, hosttest.NewTokens("good"))
	q := request(plain)
	q.Attributes.Request.Http.HeaderMap = nil
	q.Attributes.Request.Http.Headers = map[string]string{":path": "/", "authorization": "Bearer good"}
	if got := statusOf(t, s, q); got != 503 || !strings.Contains(log.Text(), "encode_raw_headers") {
		t.Errorf("status %d, log %s", got, log.Text())
	}
}

// TestClientsCannotNameThemselves: a header that is set is not removed, all spellings of it
// that the client has sent are, and no value of the client survives.
func TestClientsCannotNameThemselves(t *testing.T) {
	s := newServer(t, &hosttest.Log{}, hosttest.NewTokens("good"))
	r, err := s.Check(t.Context(), request(plain, ":path", "/", "authorization", "Bearer good", "x-consumer-id", "root",
		"x_consumer_id", "root", "x-consumer-custom-id", "root", "x-other", "1"))
	if err != nil {
		t.Fatal(err)
	}
	set := map[string]string{}
	for _, h := range r.GetOkResponse().GetHeaders() {
		set[h.GetHeader().GetKey()] = h.GetHeader().GetValue()
		if h.GetAppendAction() != corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD {
			t.Errorf("%s is added to what the client has sent", h.GetHeader().GetKey())
		}
	}
	removed := map[string]bool{}
	for _, name := range r.GetOkResponse().GetHeadersToRemove() {
		removed[name] = true
	}
	if set["x-consumer-id"] != "consumer-1" || removed["x-consumer-id"] || !removed["x_consumer_id"] || !removed["x-consumer-custom-id"] || removed["x-other"] {
		t.Errorf("set %v, removed %v", set, removed)
	}
}

// panicking is a token cache with a fault.
type panicking struct{ *hosttest.Tokens }

func (panicking) Lookup(contract.Hash, []byte) (int, contract.Answer) { panic("injected") }

// TestFaultsRefuse: a fault refuses the request, and the next request is still decided.
func TestFaultsRefuse(t *testing.T) {
	log := &hosttest.Log{}
	s := newServer(t, log, panicking{hosttest.NewTokens("good")})
	q := request(plain, ":path", "/", "authorization", "Bearer good")
	for range 2 {
		if got := statusOf(t, s, q); got != 503 {
			t.Errorf("status %d", got)
		}
	}
	if !strings.Contains(log.Text(), "injected") {
		t.Errorf("log: %s", log.Text())
	}
	known := s.chains.of
	s.chains.of = nil // writing to it panics outside of the decision
	if got := statusOf(t, s, q); got != 503 || !strings.Contains(log.Text(), "where=check") {
		t.Errorf("status %d, log %s", got, log.Text())
	}
	s.chains.of = known
}

// TestPartsOfBodies: a body of which Envoy has sent only a part has no credential in it.
func TestPartsOfBodies(t *testing.T) {
	s := newServer(t, &hosttest.Log{}, hosttest.NewTokens("good"))
	chain := strings.Replace(plain, `"authorization"`, `"authorization","in_body":true`, 1)
	for partial, want := range map[string]int{"false": 0, "true": 401} {
		q := request(chain, ":path", "/", ":method", "POST", "content-type", "application/x-www-form-urlencoded", partialHeader, partial)
		q.Attributes.ContextExtensions[contract.AuthzBody] = "true"
		q.Attributes.Request.Http.RawBody = []byte("access_token=good")
		if got := statusOf(t, s, q); got != want {
			t.Errorf("partial %s: status %d, want %d", partial, got, want)
		}
	}
}

// TestBodiesAtTheLimit: Envoy says of a body that it has cut exactly at max_request_bytes that it is
// whole. Nobody knows whether it is, so it has no credential in it.
func TestBodiesAtTheLimit(t *testing.T) {
	s := newServer(t, &hosttest.Log{}, hosttest.NewTokens("good"))
	chain := strings.Replace(plain, `"authorization"`, `"authorization","in_body":true`, 1)
	for size, want := range map[int]int{
		contract.AuthzMaxBody - 1: 0, contract.AuthzMaxBody: 401, contract.AuthzMaxBody + 1: 0, contract.MaxBody: 0, contract.MaxBody + 1: 401,
	} {
		q := request(chain, ":path", "/", ":method", "POST", "content-type", "application/x-www-form-urlencoded", partialHeader, "false")
		q.Attributes.ContextExtensions[contract.AuthzBody] = "true"
		const form = "access_token=good&a="
		q.Attributes.Request.Http.RawBody = []byte(form + strings.Repeat("x", size-len(form)))
		if got := statusOf(t, s, q); got != want {
			t.Errorf("%d bytes: status %d, want %d", size, got, want)
		}
	}
}

// TestCallsAreGivenUp: a call that Envoy has given up leaves no look-up behind.
func TestCallsAreGivenUp(t *testing.T) {
	tokens := hosttest.NewTokens("good")
	left := make(chan struct{}, 1)
	ctx, cancel := context.WithCancel(t.Context())
	tokens.Resolve = func(func(contract.Answer, []byte)) { cancel() }
	tokens.GivenUp = func() { left <- struct{}{} }
	s := newServer(t, &hosttest.Log{}, tokens)
	r, err := s.Check(ctx, request(plain, ":path", "/", "authorization", "Bearer new"))
	if err != nil || r.GetDeniedResponse().GetStatus().GetCode() != 503 {
		t.Errorf("%v, %v", r, err)
	}
	<-left
}

// TestServe: the server answers over its socket until it is told to end.
func TestServe(t *testing.T) {
	s := newServer(t, &hosttest.Log{}, hosttest.NewTokens("good"))
	socket := contract.UnixPrefix + filepath.Join(folder(t), "s")
	lis, err := Listen(t.Context(), socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, lis) }()
	conn, err := grpc.NewClient(socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	client := authv3.NewAuthorizationClient(conn)
	for credential, want := range map[string]int{"Bearer good": 0, "Bearer bad": 401} {
		r, err := client.Check(t.Context(), request(plain, ":path", "/", "authorization", credential))
		if err != nil || int(r.GetDeniedResponse().GetStatus().GetCode()) != want {
			t.Errorf("%s: %v, %v", credential, r, err)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, err := client.Check(t.Context(), request(plain)); err == nil {
		t.Error("it still answers")
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	if _, err := net.Dial("unix", strings.TrimPrefix(socket, contract.UnixPrefix)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is left: %v", err)
	}
}

// TestServeOfAnEndedContext: a process that is told to end while it starts ends without a
// failure, and leaves nothing open.
func TestServeOfAnEndedContext(t *testing.T) {
	s := newServer(t, &hosttest.Log{}, hosttest.NewTokens("good"))
	socket := filepath.Join(folder(t), "s")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 { // the server may hear of the end before it has begun, or afterwards
		lis, err := Listen(t.Context(), contract.UnixPrefix+socket)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Serve(ctx, lis); err != nil {
			t.Fatal(err)
		}
		if c, err := net.Dial("unix", socket); err == nil {
			_ = c.Close()
			t.Fatal("the listener is still open")
		}
	}
}
