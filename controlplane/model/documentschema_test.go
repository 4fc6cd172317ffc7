package model

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

type leaf struct {
	Labelled
	Mode  string            `json:"mode,omitempty" jsonschema:"enum=A,enum=B"`
	On    []string          `json:"on,omitempty" jsonschema:"enum=X,enum=Y"`
	Large *uint64           `json:"large,omitempty"`
	Small uint32            `json:"small,omitempty"`
	Data  []byte            `json:"data,omitempty"`
	Free  map[string]any    `json:"free,omitzero"`
	Any   json.RawMessage   `json:"any,omitempty"`
	Empty *struct{}         `json:"empty,omitempty"`
	Inner map[string][]part `json:"inner,omitempty"`
}

// TestDocumentSchema: the schema is made from the tags that the decoder reads, and describes
// the form of documents.
func TestDocumentSchema(t *testing.T) {
	k := Describe(leaf{}, Kind{Document: &Document{Type: "Leaf"}})
	raw, err := json.Marshal(k.Document.Schema)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"properties":{` +
		`"labels":{"additionalProperties":{"type":"string"},"type":"object"},` +
		`"mode":{"type":"string","enum":["A","B"]},` +
		`"on":{"items":{"type":"string","enum":["X","Y"]},"type":"array"},` +
		`"large":{"type":"string","pattern":"^[0-9]+$","format":"uint64"},` +
		`"small":{"type":"integer","maximum":4294967295,"minimum":0},` +
		`"data":{"type":"string","contentEncoding":"base64"},` +
		`"free":{"type":"object"},` +
		`"any":true,` +
		`"empty":{"properties":{},"additionalProperties":false,"type":"object"},` +
		`"inner":{"additionalProperties":{"items":{"properties":{"weights":{"items":{"type":"integer","maximum":9,"minimum":0},"type":"array","default":["1","2"]},` +
		`"notes":{"additionalProperties":{"type":"string"},"type":"object"}},"additionalProperties":false,"type":"object","required":["weights"]},"type":"array"},"type":"object"}},` +
		`"additionalProperties":false,"type":"object"}`
	if diff := cmp.Diff(want, string(raw)); diff != "" {
		t.Error(diff)
	}
	if _, ok := k.New().(*leaf); !ok {
		t.Errorf("New makes a %T", k.New())
	}
}

// TestDocumentsHaveNoTagsOfEntities: a tag that names a check which nobody runs would accept
// everything.
func TestDocumentsHaveNoTagsOfEntities(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("nobody complains")
		}
	}()
	Describe(struct {
		In []struct {
			A string `json:"a,omitempty" jsonschema_extras:"x-check=name"`
		} `json:"in,omitempty"`
	}{}, Kind{Document: &Document{}})
}
