package extauthz

import (
	"context"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/host"
	"github.com/meshgate/meshgate/filter/host/hosttest"
)

// served runs a server on a socket of its own, and returns a client of it.
func served(t *testing.T, s *Server) authv3.AuthorizationClient {
	t.Helper()
	socket := contract.UnixPrefix + filepath.Join(folder(t), "s")
	lis, err := Listen(t.Context(), socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, lis) }()
	conn, err := grpc.NewClient(socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return authv3.NewAuthorizationClient(conn)
}

// TestQuestionsInProgressAreBounded: strangers can have the service hold as many bytes as their
// address has a share of. Whoever comes from there then is refused, and told to come again;
// there is room for other addresses. When they are gone the room is there again.
func TestQuestionsInProgressAreBounded(t *testing.T) {
	tokens := hosttest.NewTokens("good")
	waiting := make(chan func(contract.Answer, []byte), 100)
	tokens.Resolve = func(done func(contract.Answer, []byte)) { waiting <- done }
	s := newServer(t, &hosttest.Log{}, tokens)
	client := served(t, s)
	stranger := request(plain, ":path", "/", ":method", "POST", "authorization", "Bearer new")
	stranger.Attributes.Request.Http.RawBody = make([]byte, contract.MaxBody)
	const some = 8
	s.room.most = int64(2*some*proto.Size(stranger) + 4*unread)
	var wg sync.WaitGroup
	for range some {
		wg.Go(func() {
			if r, err := client.Check(t.Context(), stranger); err != nil || r.GetDeniedResponse().GetStatus().GetCode() != 401 {
				t.Errorf("%v, %v", r, err)
			}
		})
	}
	var looked []func(contract.Answer, []byte)
	for range some {
		looked = append(looked, <-waiting)
	}
	small := request(plain, ":path", "/", "authorization", "Bearer good")
	if r, err := client.Check(t.Context(), small); err != nil || r.GetOkResponse() == nil {
		t.Errorf("what there is room for: %v, %v", r, err)
	}
	r, err := client.Check(t.Context(), stranger)
	if err != nil || r.GetDeniedResponse().GetStatus().GetCode() != 503 {
		t.Errorf("one too many: %v, %v", r, err)
	}
	elsewhere := from("192.0.2.1", stranger)
	elsewhere.Attributes.Request.Http.HeaderMap.Headers[2].RawValue = []byte("Bearer good")
	if r, err := client.Check(t.Context(), elsewhere); err != nil || r.GetOkResponse() == nil {
		t.Errorf("another address: %v, %v", r, err)
	}
	headers := map[string]string{}
	for _, h := range r.GetDeniedResponse().GetHeaders() {
		headers[h.GetHeader().GetKey()] = h.GetHeader().GetValue()
	}
	if headers["retry-after"] != "1" {
		t.Errorf("it is not told to come again: %v", headers)
	}
	for _, done := range looked {
		done(contract.Unknown, nil)
	}
	wg.Wait()
	if r, err := client.Check(t.Context(), small); err != nil || r.GetOkResponse() == nil {
		t.Errorf("afterwards: %v, %v", r, err)
	}
	want := Decisions{Allowed: 3, Refused: map[contract.Reason]uint64{contract.ReasonTokenUnknown: some, contract.ReasonBodyBudget: 1}}
	if diff := cmp.Diff(want, s.Decisions()); diff != "" {
		t.Errorf("counted (-want +got):\n%s", diff)
	}
	if held := s.room.held.Load(); held != 0 {
		t.Errorf("%d bytes are held by nobody", held)
	}
}

// from is a question about a client at an address.
func from(address string, q *authv3.CheckRequest) *authv3.CheckRequest {
	q = proto.CloneOf(q)
	q.Attributes.Source = &authv3.AttributeContext_Peer{Address: &corev3.Address{Address: &corev3.Address_SocketAddress{
		SocketAddress: &corev3.SocketAddress{Address: address, PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: 4711}}}}}
	return q
}

// TestAddressesShareTheRoom: an address that is alone gets half of the room. Of several each gets
// as much as is then left free, and connections of one address count together. What an address
// gave back others may take.
func TestAddressesShareTheRoom(t *testing.T) {
	const one = 1 << 20
	r := newRoom()
	taken := func(connection string) (all []*place) {
		for {
			p, ok := r.enter()
			if !ok || !p.charge(one, host.AskerOf([]byte(connection))) {
				p.leave()
				return all
			}
			all = append(all, p)
		}
	}
	first := taken("192.0.2.1:1000")
	if n := len(first); n != maxHeld/one/2 {
		t.Errorf("the first takes %d of %d", n, maxHeld/one)
	}
	if again := taken("192.0.2.1:1001"); len(again) > 0 {
		t.Errorf("another connection of it takes %d", len(again))
	}
	second := taken("192.0.2.2:1000")
	if n := len(second); n != maxHeld/one/4 {
		t.Errorf("the second takes %d of %d", n, maxHeld/one)
	}
	for _, p := range first {
		p.leave()
	}
	second = append(second, taken("192.0.2.2:1001")...)
	if n := len(second); n != maxHeld/one/2 {
		t.Errorf("it is alone and has %d of %d", n, maxHeld/one)
	}
	for _, p := range second {
		p.leave()
	}
	if held := r.held.Load(); held != 0 {
		t.Errorf("%d bytes are held by nobody", held)
	}
}

// TestUnreadQuestionsCount: a question takes its place before it is read. One that has none is
// refused unread.
func TestUnreadQuestionsCount(t *testing.T) {
	s := newServer(t, &hosttest.Log{}, hosttest.NewTokens("good"))
	s.room.most = 2 * unread
	first, _ := s.room.enter()
	second, ok := s.room.enter()
	if !ok {
		t.Fatal("there is room for two")
	}
	r, err := s.ask(t.Context(), func(any) error { t.Error("it is read"); return nil })
	if err != nil || r.GetDeniedResponse().GetStatus().GetCode() != 503 {
		t.Errorf("%v, %v", r, err)
	}
	first.leave()
	read := func(q any) error {
		proto.Merge(q.(proto.Message), request(plain, ":path", "/", "authorization", "Bearer good"))
		return nil
	}
	if r, err := s.ask(t.Context(), read); err != nil || r.GetOkResponse() == nil {
		t.Errorf("%v, %v", r, err)
	}
	second.leave()
	if held := s.room.held.Load(); held != 0 {
		t.Errorf("%d bytes are held by nobody", held)
	}
}

// TestFewAreRead: no more questions are read at the same time than there are turns. One that
// waits for its turn ends with its call.
func TestFewAreRead(t *testing.T) {
	s := newServer(t, &hosttest.Log{}, hosttest.NewTokens("good"))
	begun, end := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	for range maxReading {
		wg.Go(func() {
			_, _ = s.ask(t.Context(), func(any) error { begun <- struct{}{}; <-end; return context.Canceled })
		})
	}
	for range maxReading {
		<-begun
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.ask(ctx, func(any) error { t.Error("it is read"); return nil })
	if status.Code(err) != codes.Canceled {
		t.Error(err)
	}
	close(end)
	wg.Wait()
	if held := s.room.held.Load(); held != 0 || len(s.room.reading) != 0 {
		t.Errorf("%d bytes and %d turns are held by nobody", held, len(s.room.reading))
	}
}

// TestHeadersOfCallsAreBounded: a call has a few headers of Envoy's own.
func TestHeadersOfCallsAreBounded(t *testing.T) {
	client := served(t, newServer(t, &hosttest.Log{}, hosttest.NewTokens("good")))
	q := request(plain, ":path", "/", "authorization", "Bearer good")
	for size, want := range map[int]codes.Code{maxHeaders / 2: codes.OK, maxHeaders: codes.Internal} {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "x-more", strings.Repeat("a", size))
		if _, err := client.Check(ctx, q); status.Code(err) != want {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}
