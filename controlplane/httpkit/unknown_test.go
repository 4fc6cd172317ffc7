package httpkit

import "testing"

// TestUnknownMembersSayWhatWasMeant: the text suggests the member that was probably meant.
func TestUnknownMembersSayWhatWasMeant(t *testing.T) {
	for body, want := range map[string]string{
		`{"valid":"1h"}`:    `unknown field "valid"`,
		`{"validfro":"1h"}`: `unknown field "validfro"; did you mean "validFor"?`,
		`{"zzzzzz":1}`:      `unknown field "zzzzzz"`,
	} {
		var in struct {
			Name     string `json:"name,omitempty"`
			ValidFor string `json:"validFor"`
			Hidden   string `json:"-"`
		}
		if err := DecodeObject([]byte(body), &in); err == nil || err.Error() != want {
			t.Errorf("%s: %v", body, err)
		}
	}
}
