package contract

import "testing"

// TestContinues: the same members are others if somebody was none in between.
func TestContinues(t *testing.T) {
	told := &Scopes{Of: "g", Members: []string{"a", "b"}, Since: 5}
	for name, tc := range map[string]struct {
		now  *Scopes
		want bool
	}{
		"as told":        {&Scopes{Of: "g", Members: []string{"a", "b"}, Since: 5}, true},
		"left and back":  {&Scopes{Of: "g", Members: []string{"a", "b"}, Since: 6}, false},
		"long ago":       {&Scopes{Of: "g", Members: []string{"a", "b"}}, true},
		"one left":       {&Scopes{Of: "g", Members: []string{"a"}, Since: 5}, false},
		"of another one": {&Scopes{Of: "h", Members: []string{"a", "b"}, Since: 5}, false},
		"nobody says":    {nil, false},
	} {
		if got := tc.now.Continues(told); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
