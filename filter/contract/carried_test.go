package contract

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCarriedIsRead(t *testing.T) {
	for _, c := range []Carried{
		{Content: ChainContent([]byte("a"))},
		{Content: ChainContent([]byte("b")), Strip: &Strip{Prefix: 12}},
		{Content: ChainContent([]byte("c")), Strip: &Strip{Prefix: 1, Base: "/a b/1"}},
	} {
		got, err := ParseCarried(c.String())
		if diff := cmp.Diff(c, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", c, err, diff)
		}
	}
	name := strings.Repeat("0a", 16)
	for _, text := range []string{"", NoChain, name[1:], name + "0", name + "00", "x" + name[1:], name + " ", name + " /a", name + " -1/a", name + " 99999999999"} {
		if got, err := ParseCarried(text); err == nil {
			t.Errorf("%q is read as %+v", text, got)
		}
	}
}

// TestChainsAreLines: a table carries chains as they are, and nothing that could be taken for
// two of them.
func TestChainsAreLines(t *testing.T) {
	want := [][]byte{[]byte(`{"a":1}`), []byte(`{"b":2}`)}
	text, err := MarshalChains(want)
	if err != nil {
		t.Fatal(err)
	}
	got, ok := ParseChains(text)
	if diff := cmp.Diff(want, got); !ok || diff != "" {
		t.Errorf("read %t (-want +got):\n%s", ok, diff)
	}
	for _, other := range []string{string(want[0]), PlainChains} {
		if _, ok := ParseChains([]byte(other)); ok {
			t.Errorf("%q is taken for what a table of marked routes carries", other)
		}
	}
	for _, bad := range []string{"", "{\n}"} {
		if text, err := MarshalChains([][]byte{[]byte(bad)}); err == nil {
			t.Errorf("%q became %q", bad, text)
		}
	}
	chain := &Chain{Protocol: ProtocolGRPC, Service: "line\nfeed\u2028"}
	if encoded, err := chain.Marshal(); err != nil || bytes.IndexByte(encoded, '\n') >= 0 {
		t.Errorf("an encoded chain is %q, %v", encoded, err)
	}
}
