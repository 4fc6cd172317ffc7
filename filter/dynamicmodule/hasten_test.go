package main

import "testing"

// linking is a token cache that counts how often it is told to link soon.
type linking struct {
	tokens
	hastened int
}

func (l *linking) Hasten() { l.hastened++ }
func (l *linking) Close()  {}

// TestHandOverHastensTheLink: a client that is handed to the control plane for a token
// makes every open token cache link soon; one that is not open yet is left alone.
func TestHandOverHastensTheLink(t *testing.T) {
	l := &linking{}
	m := &module{sourceOf: map[string]uint32{}}
	for _, cache := range []tokens{l, nil} {
		late := &lateCache{module: m}
		key := "not open"
		if cache != nil {
			late.cache.Store(&cache)
			key = "open"
		}
		h, err := m.sources.put(&source{tokens: late, key: key, refs: 1})
		if err != nil {
			t.Fatal(err)
		}
		m.sourceOf[key] = h
	}
	m.hasten()
	if l.hastened != 1 {
		t.Errorf("hastened %d times", l.hastened)
	}
}
