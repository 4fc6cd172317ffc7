package framework

import (
	"fmt"
	"io"
	"net"
	"sync"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
)

// StartGreeter starts a TCP server that speaks first, as mail and database servers do, and
// returns its port. It greets each connection with a line: the name and the number of the
// connection, from 1. So whoever reads a greeting knows how many were opened before, also
// those on which nobody read anything. Who has said all is told how many bytes that was.
// It stops when the spec ends.
func StartGreeter(name string) int {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	gomega.ExpectWithOffset(1, err).NotTo(gomega.HaveOccurred())
	var work sync.WaitGroup
	work.Go(func() {
		for n := 1; ; n++ {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			_, _ = fmt.Fprintf(conn, "%s %d\n", name, n) // who has left already is not greeted
			work.Go(func() {
				heard, _ := io.Copy(io.Discard, conn)
				_, _ = fmt.Fprintln(conn, heard)
				_ = conn.Close()
			})
		}
	})
	ginkgo.DeferCleanup(func() {
		_ = ln.Close() // the proxies, which are stopped before, have ended the connections
		work.Wait()
	})
	return ln.Addr().(*net.TCPAddr).Port
}
