package httpkit

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"testing"
	"time"
)

func certificate(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "peer"}, DNSNames: []string{"localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

func TestSplit(t *testing.T) {
	cert, pool := certificate(t)
	grpcLn, httpLn := Split(listen(t), &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}, slog.New(slog.DiscardHandler))
	defer func() { _ = httpLn.Close() }()
	defer func() { _ = grpcLn.Close() }()
	for _, tc := range []struct {
		name   string
		offers []string
		ln     net.Listener
		proto  string
	}{
		{"nothing", nil, httpLn, ""},
		{"http/1.1", []string{"http/1.1"}, httpLn, "http/1.1"},
		{"both", []string{"h2", "http/1.1"}, httpLn, "http/1.1"},
		{"only h2", []string{"h2"}, grpcLn, "h2"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			accepted := make(chan net.Conn, 1)
			go func() {
				conn, err := tc.ln.Accept()
				if err != nil {
					t.Error(err)
				}
				accepted <- conn
			}()
			client, err := tls.Dial("tcp", tc.ln.Addr().String(), &tls.Config{RootCAs: pool, ServerName: "localhost", NextProtos: tc.offers, MinVersion: tls.VersionTLS12})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = client.Close() }()
			conn := <-accepted
			if conn == nil {
				return
			}
			defer func() { _ = conn.Close() }()
			state := conn.(*tls.Conn).ConnectionState()
			if !state.HandshakeComplete || client.ConnectionState().NegotiatedProtocol != tc.proto {
				t.Errorf("complete %t, protocol %q", state.HandshakeComplete, client.ConnectionState().NegotiatedProtocol)
			}
		})
	}
}

func TestSplitRefusesOtherProtocols(t *testing.T) {
	cert, pool := certificate(t)
	grpcLn, httpLn := Split(listen(t), &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}, slog.New(slog.DiscardHandler))
	defer func() { _ = httpLn.Close() }()
	defer func() { _ = grpcLn.Close() }()
	conn, err := tls.Dial("tcp", grpcLn.Addr().String(), &tls.Config{RootCAs: pool, ServerName: "localhost", NextProtos: []string{"spdy/3"}, MinVersion: tls.VersionTLS12})
	if err == nil {
		_ = conn.Close()
		t.Error("a client that speaks neither was accepted")
	}
}

// TestSplitDropsSilentClients: a client that never shakes hands is dropped, and closing does
// not wait for others.
func TestSplitDropsSilentClients(t *testing.T) {
	cert, _ := certificate(t)
	grpcLn, httpLn := split(listen(t), &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}, 10*time.Millisecond, time.Second)
	conn, err := net.Dial("tcp", grpcLn.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(conn); errors.Is(err, context.DeadlineExceeded) || isTimeout(err) {
		t.Errorf("the silent client is still connected: %v", err)
	}
	for _, ln := range []net.Listener{grpcLn, httpLn} {
		if err := ln.Close(); err != nil {
			t.Error(err)
		}
		if _, err := ln.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("accept after close: %v", err)
		}
	}
}

func isTimeout(err error) bool {
	e, ok := errors.AsType[net.Error](err)
	return ok && e.Timeout()
}

func TestPeerCertificateReachesHandlers(t *testing.T) {
	cert, pool := certificate(t)
	grpcLn, httpLn := Split(listen(t), &tls.Config{
		Certificates: []tls.Certificate{cert}, ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: pool, MinVersion: tls.VersionTLS12,
	}, slog.New(slog.DiscardHandler))
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := ""
		if r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
			name = r.TLS.PeerCertificates[0].Subject.CommonName
		}
		WriteMessage(w, 200, name)
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- NewServer("test", h, slog.New(slog.DiscardHandler), Limits{}).Serve(ctx, httpLn) }()
	for want, certs := range map[string][]tls.Certificate{`{"message":"peer"}`: {cert}, `{"message":""}`: nil} {
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, ServerName: "localhost", Certificates: certs, MinVersion: tls.VersionTLS12}}
		resp, err := (&http.Client{Transport: transport}).Get("https://" + httpLn.Addr().String() + "/")
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(resp.Body)
		if err != nil || string(b) != want {
			t.Errorf("answer %s, %v; want %s", b, err, want)
		}
		_ = resp.Body.Close()
		transport.CloseIdleConnections()
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := grpcLn.Close(); err != nil {
		t.Error(err)
	}
}
