package revoke

import (
	"bufio"
	"bytes"
	"net"
	"testing"
	"time"

	"github.com/meshgate/meshgate/filter/contract"
)

func FuzzLink(f *testing.F) {
	hello, _ := contract.EncodeJSON(contract.Hello{Version: contract.LinkVersion, Instance: "i"})
	var ok bytes.Buffer
	contract.WriteFrame(&ok, contract.FrameHello, hello)
	f.Add(append([]byte(nil), ok.Bytes()...))
	contract.WriteFrame(&ok, contract.FrameRenew, contract.EncodeNumber(1))
	contract.WriteFrame(&ok, contract.FrameAck, contract.Ack{Applied: 9, Durable: 8}.Encode())
	f.Add(append([]byte(nil), ok.Bytes()...))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, data []byte) {
		w := newWorld(t, nil)
		a, b := net.Pipe()
		done := make(chan struct{})
		go func() {
			defer close(done)
			defer b.Close()
			_ = w.r.newLink(Node{ID: "n", ControlPlane: scope}, b, bufio.NewReader(b)).serve()
		}()
		go func() { // the server's answers are ignored
			buf := make([]byte, 4096)
			for {
				if _, err := a.Read(buf); err != nil {
					return
				}
			}
		}()
		a.SetWriteDeadline(time.Now().Add(time.Second))
		a.Write(data)
		a.Close()
		<-done
		if s := w.r.Stats(); s.Links != 0 {
			t.Fatalf("%+v", s)
		}
	})
}
