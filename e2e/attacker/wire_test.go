package attacker_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/meshgate/meshgate/controlplane/localsocket"
)

const (
	// patience bounds a conversation in which the gateway has all that it needs
	// for an answer, shortness one in which it may be waiting for the rest.
	patience  = 30 * time.Second
	shortness = 150 * time.Millisecond
)

// answer is one response. A status of 0 is a stream that was reset.
type answer struct {
	status int
	body   string
	// last says that the connection ends with it.
	last bool
	// grpc is the status of a call of gRPC; empty if there is none.
	grpc string
}

// trusting reads authorities from a file, once.
func trusting(file string) func() (*x509.CertPool, error) {
	return sync.OnceValues(func() (*x509.CertPool, error) {
		pem, err := os.ReadFile(file)
		pool := x509.NewCertPool()
		if err == nil && !pool.AppendCertsFromPEM(pem) {
			err = errors.New("no certificate")
		}
		return pool, err
	})
}

// dialRaw opens a connection on which nothing was said yet.
func dialRaw(at *door, secure bool) (net.Conn, error) {
	if !secure && at.socket != "" {
		return localsocket.Dial(context.Background(), at.socket)
	}
	return net.DialTimeout("tcp", at.address(secure), patience)
}

// dial opens a connection to a door.
func dial(at *door, secure bool, protocol string) (net.Conn, error) {
	if !secure {
		return dialRaw(at, false)
	}
	pool, err := at.roots()
	if err != nil {
		return nil, err
	}
	d := &net.Dialer{Timeout: patience}
	return tls.DialWithDialer(d, "tcp", at.address(true), &tls.Config{
		RootCAs: pool, ServerName: "localhost", MinVersion: tls.VersionTLS12, NextProtos: []string{protocol},
	})
}

// errSilence says that the other side neither answered nor closed.
var errSilence = errors.New("the other side neither answered nor closed the connection")

// overHTTP1 writes bytes as they are and reads the answers to requests of these
// methods, until there are as many, the gateway closes, or it says no more: wait
// is how long the first answer may take, more each further one.
func overHTTP1(at *door, secure bool, raw string, methods []string, wait, more time.Duration) ([]answer, error) {
	conn, err := dial(at, secure, "http/1.1")
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(wait))
	_, _ = io.WriteString(conn, raw) // it may have closed before it read everything
	in := bufio.NewReader(conn)
	var out []answer
	for len(out) < len(methods) {
		resp, err := http.ReadResponse(in, &http.Request{Method: methods[len(out)]})
		if err != nil {
			return out, silence(err)
		}
		if resp.StatusCode < 200 {
			continue
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			return out, silence(err)
		}
		out = append(out, answer{status: resp.StatusCode, body: string(body), last: resp.Close})
		if resp.Close {
			break
		}
		_ = conn.SetReadDeadline(time.Now().Add(more))
	}
	return out, nil
}

// silence is errSilence for a deadline, and nothing for a connection that ended.
func silence(err error) error {
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		return errSilence
	}
	return nil
}

// stream is one request over HTTP/2.
type stream struct {
	header, trailer []hpack.HeaderField
	body            string
}

// overHTTP2 sends the streams on one connection and returns their answers in
// order. A connection that ended has fewer.
func overHTTP2(at *door, secure bool, streams []stream, wait time.Duration) ([]answer, error) {
	conn, err := dial(at, secure, "h2")
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(wait))
	s := &session{framer: http2.NewFramer(conn, conn), byStream: map[uint32]*answer{}}
	s.framer.AllowIllegalWrites = true
	s.encoder = hpack.NewEncoder(&s.block)
	s.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	_, _ = io.WriteString(conn, http2.ClientPreface)
	_ = s.framer.WriteSettings()
	for i, x := range streams {
		s.write(uint32(2*i+1), x)
	}
	return s.read(len(streams))
}

// session is one HTTP/2 connection. What cannot be written shows when it is read.
type session struct {
	framer   *http2.Framer
	encoder  *hpack.Encoder
	block    bytes.Buffer
	byStream map[uint32]*answer
}

func (s *session) write(id uint32, x stream) {
	_ = s.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: s.encode(x.header), EndHeaders: true, EndStream: x.body == "" && x.trailer == nil})
	// One frame of the default size at a time, and no more than the first window.
	for rest := x.body[:min(len(x.body), 60<<10)]; rest != ""; {
		n := min(len(rest), 16<<10)
		_ = s.framer.WriteData(id, n == len(rest) && x.trailer == nil, []byte(rest[:n]))
		rest = rest[n:]
	}
	if x.trailer != nil {
		_ = s.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: s.encode(x.trailer), EndHeaders: true, EndStream: true})
	}
}

func (s *session) encode(fields []hpack.HeaderField) []byte {
	s.block.Reset()
	for _, f := range fields {
		_ = s.encoder.WriteField(f)
	}
	return s.block.Bytes()
}

// read reads until every stream has ended or the connection has.
func (s *session) read(streams int) ([]answer, error) {
	ended := map[uint32]bool{} // a stream that has ended may still be reset
	for len(ended) < streams {
		frame, err := s.framer.ReadFrame()
		if err != nil {
			return s.answers(streams), silence(err)
		}
		id := frame.Header().StreamID
		if s.byStream[id] == nil && id != 0 {
			s.byStream[id] = &answer{}
		}
		end := false
		switch frame := frame.(type) {
		case *http2.MetaHeadersFrame:
			if status := frame.PseudoValue("status"); status != "" {
				_, _ = fmt.Sscan(status, &s.byStream[id].status)
			}
			for _, f := range frame.RegularFields() {
				if f.Name == "grpc-status" {
					s.byStream[id].grpc = f.Value
				}
			}
			end = frame.StreamEnded()
		case *http2.DataFrame:
			s.byStream[id].body += string(frame.Data())
			end = frame.StreamEnded()
		case *http2.RSTStreamFrame:
			end = true
		case *http2.SettingsFrame:
			if !frame.IsAck() {
				_ = s.framer.WriteSettingsAck()
			}
		case *http2.GoAwayFrame:
			if frame.ErrCode != http2.ErrCodeNo {
				return s.answers(streams), nil
			}
		}
		if end {
			ended[id] = true
		}
	}
	return s.answers(streams), nil
}

// answers are those that came, up to the first stream without one.
func (s *session) answers(streams int) (out []answer) {
	for i := range streams {
		a := s.byStream[uint32(2*i+1)]
		if a == nil {
			break
		}
		out = append(out, *a)
	}
	return out
}

// lower makes a header field of HTTP/2.
func lower(name, value string) hpack.HeaderField {
	return hpack.HeaderField{Name: strings.ToLower(name), Value: value}
}
