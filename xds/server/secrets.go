package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"github.com/meshgate/meshgate/xds/resource"
	"google.golang.org/protobuf/proto"
)

// maxSecretRetry is the longest pause between attempts to make a secret.
const maxSecretRetry = 30 * time.Second

// made is one secret, or why there is none.
type made struct {
	name     string
	resource *resource.Resource
	// generation is that of the set when the secret was asked for or pushed.
	generation string
	pushed     bool
	err        error
}

// secretary makes secrets beside the stream, since signing may take a while or
// wait for an authority. At most one goroutine per stream works at a time. The
// stream's goroutine uses everything but put, which any goroutine may call.
type secretary struct {
	ready chan struct{}
	mu    sync.Mutex
	done  []made

	busy    bool
	cancel  context.CancelFunc
	work    sync.WaitGroup
	pause   time.Duration
	timer   *time.Timer
	blocked bool // an attempt failed and its pause is not over
}

func (s *secretary) init() { s.ready = make(chan struct{}, 1) }

func (s *secretary) put(m ...made) {
	s.mu.Lock()
	s.done = append(s.done, m...)
	s.mu.Unlock()
	select {
	case s.ready <- struct{}{}:
	default:
	}
}

// take returns what has arrived.
func (s *secretary) take() []made {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.done
	s.done = nil
	return out
}

// retry is readable when a failed secret may be tried again.
func (s *secretary) retry() <-chan time.Time {
	if s.timer == nil {
		return nil
	}
	return s.timer.C
}

func (s *secretary) due() { s.blocked, s.timer = false, nil }

func (s *secretary) stop() {
	if s.cancel != nil {
		s.cancel()
	}
	if s.timer != nil {
		s.timer.Stop()
	}
}

func (s *secretary) wait() { s.work.Wait() }

// request has secrets made; their arrival shows on secrets.ready.
func (st *stream) request(names []string) {
	s := &st.secrets
	if st.srv.cfg.Secrets == nil || s.busy || s.blocked {
		return
	}
	ctx, cancel := context.WithCancel(st.ctx)
	s.busy, s.cancel = true, cancel
	asked := make([]made, 0, len(names)+1)
	for _, name := range names {
		generation, _ := st.session.state.Set.Generation(name)
		asked = append(asked, made{name: name, generation: generation})
	}
	s.work.Add(1)
	go func() {
		defer s.work.Done()
		defer cancel()
		for i := range asked {
			asked[i].resource, asked[i].err = st.make(ctx, asked[i].name)
		}
		s.put(append(asked, made{})...)
	}()
}

// make asks for one secret and checks it. A panic of the maker is its failure.
func (st *stream) make(ctx context.Context, name string) (r *resource.Resource, err error) {
	defer func() {
		if p := recover(); p != nil {
			st.log.Error("secret_panicked", "node", st.node, "secret", name, "stack", string(debug.Stack()))
			r, err = nil, errors.New("making the secret failed")
		}
	}()
	r, err = st.srv.cfg.Secrets.Secret(ctx, st.node, name)
	if err != nil {
		return nil, err
	}
	return r, CheckSecret(r, name)
}

// finished ends one attempt; failed ones are repeated after a growing pause.
func (s *secretary) finished(failed bool, first time.Duration) {
	s.busy, s.cancel = false, nil
	if !failed {
		s.pause = 0
		return
	}
	s.pause = min(max(first, s.pause*2), maxSecretRetry)
	s.blocked, s.timer = true, time.NewTimer(s.pause)
}

// CheckSecret refuses a secret that a proxy would refuse: Envoy prints such a
// secret, with its private key, to its log and into its answer. Only inline
// material is checked, which is all that is ever sent.
func CheckSecret(r *resource.Resource, name string) error {
	if r == nil || r.Type != resource.Secret || r.Name != name {
		return errors.New("the secret is not what was asked for")
	}
	var m tlsv3.Secret
	if proto.Unmarshal(r.Body, &m) != nil || m.GetName() != name {
		return errors.New("the secret has other content than its name says")
	}
	switch v := m.GetType().(type) {
	case *tlsv3.Secret_TlsCertificate:
		chain := v.TlsCertificate.GetCertificateChain().GetInlineBytes()
		key := v.TlsCertificate.GetPrivateKey().GetInlineBytes()
		if _, err := tls.X509KeyPair(orString(chain, v.TlsCertificate.GetCertificateChain().GetInlineString()),
			orString(key, v.TlsCertificate.GetPrivateKey().GetInlineString())); err != nil {
			return errors.New("certificate and key of the secret do not belong together")
		}
	case *tlsv3.Secret_ValidationContext:
		ca := v.ValidationContext.GetTrustedCa()
		return checkBundle(orString(ca.GetInlineBytes(), ca.GetInlineString()))
	case *tlsv3.Secret_GenericSecret, *tlsv3.Secret_SessionTicketKeys:
	default:
		return errors.New("the secret is empty")
	}
	return nil
}

func orString(b []byte, s string) []byte {
	if len(b) > 0 {
		return b
	}
	return []byte(s)
}

// checkBundle demands PEM certificates and nothing else.
func checkBundle(bundle []byte) error {
	n := 0
	for {
		var block *pem.Block
		block, bundle = pem.Decode(bundle)
		if block == nil {
			break
		}
		if _, err := x509.ParseCertificate(block.Bytes); block.Type != "CERTIFICATE" || err != nil {
			return fmt.Errorf("certificate %d of the trust bundle cannot be parsed", n+1)
		}
		n++
	}
	if n == 0 {
		return errors.New("the trust bundle holds no certificate")
	}
	return nil
}
