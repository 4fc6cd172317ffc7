package module

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/filtertest"
)

// plane is the authority of a filter: it grants every lease that is asked for, and knows the
// tokens that it was given. Without one the module has no memory of its own.
type plane struct {
	settings object // of a filter that asks it

	mu       sync.Mutex
	known    map[contract.Hash]*contract.Record
	revision uint64
	log      []*contract.Invalidate // the first leads to position 1
	links    map[net.Conn]chan *contract.Invalidate
	applied  *sync.Cond // of mu: acked has changed
	acked    contract.Position
}

func startPlane(t *testing.T) *plane {
	t.Helper()
	cert, ca := planeCertificate(t)
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS13})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	caFile, tokenFile := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "token")
	if err := errors.Join(os.WriteFile(caFile, ca, 0o600), os.WriteFile(tokenFile, []byte("token"), 0o600)); err != nil {
		t.Fatal(err)
	}
	p := &plane{
		settings: object{"control_plane": object{"address": l.Addr().String(), "ca_file": caFile, "token_file": tokenFile, "node": "cp/default/gateway"}},
		known:    map[contract.Hash]*contract.Record{}, revision: 1, links: map[net.Conn]chan *contract.Invalidate{},
	}
	p.applied = sync.NewCond(&p.mu)
	var work sync.WaitGroup
	work.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			work.Go(func() { p.serve(conn) })
		}
	})
	t.Cleanup(func() {
		closing(t, l)
		p.mu.Lock()
		for conn := range p.links {
			_ = conn.Close() // it may have ended
		}
		p.mu.Unlock()
		work.Wait()
	})
	return p
}

// planeCertificate is one of a data-plane server that is its own authority.
func planeCertificate(t *testing.T) (tls.Certificate, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, URIs: []*url.URL{contract.DataPlaneURI()},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// put makes a token known.
func (p *plane) put(token *filtertest.Token) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known[token.Hash()] = &token.Record
}

// revoke makes a token unknown, and returns when every filter has said so.
func (p *plane) revoke(token *filtertest.Token) {
	p.mu.Lock()
	defer p.mu.Unlock()
	hash := token.Hash()
	delete(p.known, hash)
	p.revision++
	at := contract.Position(len(p.log))
	m := &contract.Invalidate{From: at, To: at + 1, Items: []contract.Invalidation{{Subject: contract.SubjectToken, Token: hash, Revision: p.revision}}}
	p.log = append(p.log, m)
	for _, link := range p.links {
		link <- m
	}
	for p.acked < m.To {
		p.applied.Wait()
	}
}

// serve serves one link until it ends.
func (p *plane) serve(conn net.Conn) {
	defer conn.Close()
	r := bufio.NewReader(conn)
	req, err := http.ReadRequest(r)
	if err != nil || req.URL.Path != contract.LinkPath {
		return
	}
	if _, err := io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "+contract.LinkProtocol+"\r\n\r\n"); err != nil {
		return
	}
	var hello contract.Hello
	if t, body, err := contract.ReadFrame(r); err != nil || t != contract.FrameHello || contract.DecodeJSON(body, &hello) != nil {
		return
	}
	welcome, err := contract.EncodeJSON(contract.Welcome{Log: "log", From: hello.Applied})
	if err != nil || contract.WriteFrame(conn, contract.FrameWelcome, welcome) != nil {
		return
	}
	var writing sync.Mutex
	write := func(t contract.FrameType, body []byte) error {
		writing.Lock()
		defer writing.Unlock()
		return contract.WriteFrame(conn, t, body)
	}
	var sender sync.WaitGroup
	defer sender.Wait()
	revocations := p.join(conn, hello.Applied)
	defer p.part(conn)
	sender.Go(func() {
		for m := range revocations {
			if write(contract.FrameInvalidate, m.Encode()) != nil {
				return
			}
		}
	})
	for {
		t, body, err := contract.ReadFrame(r)
		if err != nil || p.answer(t, body, write) != nil {
			return
		}
	}
}

// join returns what a filter has to hear that has applied everything up to a position.
func (p *plane) join(conn net.Conn, applied contract.Position) chan *contract.Invalidate {
	p.mu.Lock()
	defer p.mu.Unlock()
	link := make(chan *contract.Invalidate, 16)
	for _, m := range p.log[applied:] {
		link <- m
	}
	p.links[conn] = link
	return link
}

func (p *plane) part(conn net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if link, ok := p.links[conn]; ok {
		close(link)
		delete(p.links, conn)
	}
}

// answer answers one frame of a filter.
func (p *plane) answer(t contract.FrameType, body []byte, write func(contract.FrameType, []byte) error) error {
	switch t {
	case contract.FrameRenew:
		return write(contract.FrameGranted, body)
	case contract.FrameInUse:
		return write(contract.FrameRefilled, body[:8])
	case contract.FrameAck:
		a, err := contract.DecodeAck(body)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.acked = a.Applied
		p.applied.Broadcast()
		return err
	case contract.FrameIntrospect:
		m, err := contract.DecodeIntrospect(body)
		if err != nil {
			return err
		}
		p.mu.Lock()
		result := &contract.Result{ID: m.ID, Answer: contract.Unknown, Revision: p.revision, Record: p.known[m.Token]}
		p.mu.Unlock()
		if result.Record != nil {
			result.Answer = contract.Found
		}
		encoded, err := result.Encode()
		if err != nil {
			return err
		}
		return write(contract.FrameResult, encoded)
	default:
		return nil
	}
}
