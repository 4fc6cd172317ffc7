package health

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"syscall"
)

// Reasons why a server cannot be reached, for [Finding.Reason].
const (
	UnknownHost      = "unknown_host"
	Refused          = "refused"
	UnknownAuthority = "unknown_authority"
	WrongName        = "wrong_name"
	ServerExpired    = "certificate_expired"
	NoTLS            = "no_tls"
	HangsUp          = "hangs_up"
	Timeout          = "timeout"
)

// Unreachable returns the reason of an error of a connection, or "" if it is none of these.
func Unreachable(err error) string {
	var resolve *net.DNSError
	var record tls.RecordHeaderError
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	var timeout net.Error
	switch {
	case errors.As(err, &resolve) && !resolve.IsTimeout:
		return UnknownHost
	case errors.Is(err, syscall.ECONNREFUSED):
		return Refused
	case errors.As(err, &unknown):
		return UnknownAuthority
	case errors.As(err, &name):
		return WrongName
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired: // or not valid yet
		return ServerExpired
	case errors.As(err, &record), errors.Is(err, http.ErrSchemeMismatch):
		return NoTLS
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return Timeout
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET):
		return HangsUp
	}
	return ""
}
