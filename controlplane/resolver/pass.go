package resolver

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"
)

// resolvConf is the file with the resolvers of the machine.
const resolvConf = "/etc/resolv.conf"

// Port is the port of resolvers that say no other (RFC 1035 section 4.2).
const Port = 53

// MachineResolvers returns the resolvers in a text in the form of resolv.conf(5).
func MachineResolvers(text []byte) (out []netip.AddrPort) {
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 2 || fields[0] != "nameserver" {
			continue
		}
		if ip, err := netip.ParseAddr(fields[1]); err == nil {
			out = append(out, netip.AddrPortFrom(ip, Port))
		}
	}
	return out
}

// upstreams returns whom to ask. The file is read each time, because it changes when the machine
// gets another network. The server itself is nobody to ask.
func (s *Server) upstreams() []netip.AddrPort {
	if len(s.Upstreams) > 0 {
		return s.Upstreams
	}
	text, err := os.ReadFile(resolvConf)
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(MachineResolvers(text), func(a netip.AddrPort) bool { return a == s.Address })
}

// pass returns what the first resolver answers that does, and a failure if none does.
func (s *Server) pass(ctx context.Context, query []byte, stream bool) []byte {
	network := "udp"
	if stream {
		network = "tcp"
	}
	for _, to := range s.upstreams() {
		if ctx.Err() != nil {
			return nil
		}
		if reply, err := ask(ctx, network, to, query); err == nil {
			return reply
		}
	}
	return failure(query)
}

// errShort is the error for a message that has no header.
var errShort = errors.New("the message is too short")

// ask asks one resolver.
func ask(ctx context.Context, network string, to netip.AddrPort, query []byte) ([]byte, error) {
	if len(query) < 2 {
		return nil, errShort
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, to.String())
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	if network == "tcp" {
		if err := writeFramed(conn, query); err != nil {
			return nil, err
		}
		return readFramed(conn)
	}
	if _, err := conn.Write(query); err != nil {
		return nil, err
	}
	buffer := make([]byte, maxMessage)
	for {
		n, err := conn.Read(buffer)
		if err != nil {
			return nil, err
		}
		// An answer to another question may be late, or forged.
		if n > 2 && bytes.Equal(buffer[:2], query[:2]) && buffer[2]&0x80 != 0 {
			return append([]byte(nil), buffer[:n]...), nil
		}
	}
}

// readFramed reads a message with its length before it (RFC 1035 section 4.2.2).
func readFramed(r io.Reader) ([]byte, error) {
	var n [2]byte
	if _, err := io.ReadFull(r, n[:]); err != nil {
		return nil, err
	}
	m := make([]byte, binary.BigEndian.Uint16(n[:]))
	_, err := io.ReadFull(r, m)
	return m, err
}

func writeFramed(w io.Writer, m []byte) error {
	if len(m) > maxMessage {
		return errors.New("the message is too long")
	}
	_, err := w.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(m))), m...)) //nolint:gosec // checked
	return err
}
