package mesh_test

import (
	"net"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/reflection"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
)

// startTalk starts a gRPC server with a method that answers every message of a stream for as long
// as its caller goes on, and returns its port.
func startTalk() int {
	GinkgoHelper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	server := grpc.NewServer()
	reflection.RegisterV1(server)
	go func() { _ = server.Serve(ln) }()
	DeferCleanup(server.Stop)
	return ln.Addr().(*net.TCPAddr).Port
}

// conversation is a stream to such a server.
type conversation struct {
	grpc.BidiStreamingClient[reflectionv1.ServerReflectionRequest, reflectionv1.ServerReflectionResponse]
}

// talk opens a stream on a connection of its own.
func talk(address string) conversation {
	GinkgoHelper()
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDisableRetry())
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(conn.Close)
	stream, err := reflectionv1.NewServerReflectionClient(conn).ServerReflectionInfo(bounded(""))
	Expect(err).NotTo(HaveOccurred())
	return conversation{stream}
}

// say sends a message and waits for the answer.
func (c conversation) say() error {
	_ = c.Send(&reflectionv1.ServerReflectionRequest{MessageRequest: &reflectionv1.ServerReflectionRequest_ListServices{}})
	return c.waits() // it knows why nothing can be sent
}

// waits waits for an answer.
func (c conversation) waits() error {
	_, err := c.Recv()
	return err
}

// startDeaf has the kernel answer no more attempts to connect to a port, which it returns: the
// queue of connections that nobody accepts is full, and Linux then drops what asks for another.
func startDeaf() int {
	GinkgoHelper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(syscall.Close, fd)
	Expect(syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})).To(Succeed())
	Expect(syscall.Listen(fd, 0)).To(Succeed())
	at, err := syscall.Getsockname(fd)
	Expect(err).NotTo(HaveOccurred())
	port := at.(*syscall.SockaddrInet4).Port
	// A queue for none takes one.
	conn, err := net.DialTCP("tcp", nil, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(conn.Close)
	return port
}
