package contract

import "testing"

// TestServicesOfOneID: where both sides name the control plane of a service it counts, and
// an id alone is one that was judged by somebody else, or the only one.
func TestServicesOfOneID(t *testing.T) {
	for name, tc := range map[string]struct {
		bound, service, plane string
		global, want          bool
	}{
		"its service":                   {"s", "s", "", false, true},
		"another":                       {"t", "s", "", false, false},
		"a longer id":                   {"st", "s", "", false, false},
		"a shorter id":                  {"s", "st", "", false, false},
		"none":                          {"", "s", "", false, false},
		"none, global":                  {"", "s", "a", true, true},
		"bound, global":                 {"s", "t", "", true, false},
		"its service in a group":        {BoundTo("s", "a"), "s", "a", false, true},
		"of another member":             {BoundTo("s", "b"), "s", "a", false, false},
		"of a longer name":              {BoundTo("s", "ab"), "s", "a", false, false},
		"another of its member":         {BoundTo("t", "a"), "s", "a", false, false},
		"a longer id of its member":     {BoundTo("st", "a"), "s", "a", false, false},
		"of nobody":                     {BoundTo("s", ""), "s", "a", false, false},
		"judged elsewhere":              {"s", "s", "a", false, true},
		"at a route without":            {BoundTo("s", "a"), "", "", false, false},
		"a chain that does not name it": {BoundTo("s", "a"), "s", "", false, true},
		"of another, not named":         {BoundTo("t", "a"), "s", "", false, false},
	} {
		if got := GoodFor([]byte(tc.bound), tc.service, tc.plane, tc.global); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestPackedForAGroup: only there a service is told with its control plane.
func TestPackedForAGroup(t *testing.T) {
	own, other := wholeRecord, wholeRecord
	own.ServicePlane = ""
	unnamed := own
	unnamed.Plane = ""
	global := own
	global.Service = ""
	group := &Scopes{Of: "group", Members: []string{plane, "plane-2"}}
	for name, tc := range map[string]struct {
		r    Record
		of   *Scopes
		want string
	}{
		"of its own control plane": {own, &Scopes{Of: plane, Members: []string{plane}}, "service"},
		"untold":                   {unnamed, nil, "service"},
		"in a group":               {own, group, "service@" + plane},
		"in a group of one":        {own, &Scopes{Of: "group", Members: []string{plane}}, "service@" + plane},
		"of another member":        {other, group, "service@plane-2"},
		"of none":                  {global, group, ""},
		"of nobody":                {unnamed, group, "service"},
	} {
		if got := unpack(t, tc.r.PackFor(tc.of, nil))[FieldService]; got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}
