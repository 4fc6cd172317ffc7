package httpkit

import "testing"

func TestLoopback(t *testing.T) {
	for listen, want := range map[string]string{"0.0.0.0": "127.0.0.1", "::": "127.0.0.1", "127.0.0.2": "127.0.0.2", "10.0.0.1": "10.0.0.1"} {
		if got := Loopback(listen); got != want {
			t.Errorf("%s: %s, want %s", listen, got, want)
		}
	}
}
