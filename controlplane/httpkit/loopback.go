package httpkit

import "net"

// Loopback returns the address at which this machine reaches a server that listens on
// listen: loopback where that means every address, else the same.
func Loopback(listen string) string {
	if ip := net.ParseIP(listen); ip != nil && ip.IsUnspecified() {
		return "127.0.0.1"
	}
	return listen
}
