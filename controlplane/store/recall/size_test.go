package recall_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/recall"
)

// TestBytes: rows of any size take bounded room, whether they are asked for one by one or in
// lists. One that is too large for that is not kept, and takes no room from others.
func TestBytes(t *testing.T) {
	s := open(t)
	cache := recall.New(s, box)
	get := func(name string) {
		t.Helper()
		if err := cache.View(t.Context(), func(r store.Reader) error {
			if name == "all" {
				_, err := r.List(box, store.Query{Scope: "s", Limit: 1})
				return err
			}
			_, err := r.Get(box, "s", name)
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	const size = 900 << 10
	write(t, s, create(box, "large", item{Label: strings.Repeat("x", recall.MaxAnswer)}))
	for n := range 3 * recall.MaxBytes / size {
		write(t, s, create(box, fmt.Sprint(n), item{Label: fmt.Sprint(n, strings.Repeat("x", size))}))
	}
	for n := range 3 * recall.MaxBytes / size {
		get(fmt.Sprint(n))
		get("all")
		if _, bytes := cache.Answers(); bytes > recall.MaxBytes {
			t.Fatalf("%d bytes are kept after %d rows", bytes, n+1)
		}
	}
	before, bytes := cache.Answers()
	if bytes < recall.MaxBytes/2 {
		t.Errorf("%d bytes are kept, although there is room for %d", bytes, recall.MaxBytes)
	}
	get("large")
	if n, _ := cache.Answers(); n != before {
		t.Errorf("%d answers are kept after one that is too large, %d before", n, before)
	}
	write(t, s, update(box, "0", item{})) // all is forgotten
	get("0")
	get("0")
	if n, bytes := cache.Answers(); n != 1 || bytes > 4<<10 {
		t.Errorf("%d answers of %d bytes are kept", n, bytes)
	}
}

// TestWhatARowOccupies: wherever in a row its bulk is, the estimate is not below it, and not
// far above.
func TestWhatARowOccupies(t *testing.T) {
	const bulk = 1 << 16
	text := strings.Repeat("x", bulk)
	var pieces, numbers []string
	many := map[string]string{}
	for i := range bulk / 64 {
		piece := fmt.Sprintf("%048d", i)
		pieces, many[piece] = append(pieces, piece), ""
		numbers = append(numbers, "")
	}
	type nested struct{ Next *struct{ Deep any } }
	type filled struct {
		Text   string
		List   []string
		Map    map[string]string
		Raw    []byte
		Nested nested
		Any    any
	}
	deep := nested{&struct{ Deep any }{Deep: []any{text}}}
	for name, spec := range map[string]any{
		"a text": &filled{Text: text}, "texts": &filled{List: pieces}, "a map": &filled{Map: many}, "empty texts": &filled{List: append(numbers, make([]string, bulk/16)...)},
		"bytes": &filled{Raw: []byte(text)}, "something nested": &filled{Nested: deep}, "something of any type": &filled{Any: map[string]any{"a": deep}},
	} {
		k := &model.Kind{Name: "filled"}
		if n := recall.Occupied(&model.Resource{Kind: k, Scope: "s", Name: "n", Spec: spec}); n < bulk || n > 3*bulk {
			t.Errorf("%s: %d bytes, of which %d are its bulk", name, n, bulk)
		}
	}
	if n := recall.Occupied(&model.Resource{Kind: box, Scope: "s", Name: "n", Spec: &item{}}); n > 2<<10 {
		t.Errorf("a small row is said to occupy %d bytes", n)
	}
}
