package meshapi

import (
	"bytes"
	"encoding/json"
	"testing"
)

// FuzzIndent: a document is indented as encoding/json does it.
func FuzzIndent(f *testing.F) {
	for _, text := range []string{`{}`, `[]`, `{"a":{},"b":[],"c":[{}, [1,2.5e3,null,true]]}`, `"a\"{[,:"`, `{"\\":"\\\"","a ":["}",":"]}`, ` 1 `, `[[[[]]]]`, `{"ä":"\u2028 "}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, document []byte) {
		var plain, want bytes.Buffer
		if json.Compact(&plain, document) != nil {
			return
		}
		if err := json.Indent(&want, plain.Bytes(), "", " "); err != nil {
			t.Fatal(err)
		}
		if got := indent(nil, plain.Bytes(), 0); !bytes.Equal(got, want.Bytes()) {
			t.Errorf("%s is indented as\n%s\nand not\n%s", plain.Bytes(), got, want.Bytes())
		}
	})
}
