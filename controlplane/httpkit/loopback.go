package httpkit

import "net"

// Loopback returns the address at which this machine reaches a server that listens on
// listen. It is the loopback address if listen means every address, and otherwise listen.
func Loopback(listen string) string {
	if ip := net.ParseIP(listen); ip != nil && ip.IsUnspecified() {
		return "127.0.0.1"
	}
	return listen
}
