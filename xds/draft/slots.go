package draft

import (
	"fmt"

	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
)

// Slot is the place of an HTTP filter in a chain. Filters run in the order of their slots,
// whatever the order in which policies add them.
type Slot int

// These are the slots, first to last.
const (
	// SlotAccess decides by the identity of the peer.
	SlotAccess Slot = iota
	// SlotFault delays and aborts requests.
	SlotFault
	// SlotRateLimit counts requests.
	SlotRateLimit
	// SlotCompression compresses answers.
	SlotCompression
	// SlotToken checks bearer tokens. It is last because it is the most expensive.
	SlotToken
	// SlotRouter ends the chain.
	SlotRouter
	slots
)

// Slots are the HTTP filters of one chain. The zero value is empty.
type Slots [slots][]*hcmv3.HttpFilter

// Put adds a filter. A slot may contain several filters with different names; a second one
// with the same name is an error.
func (s *Slots) Put(slot Slot, f *hcmv3.HttpFilter) error {
	for _, have := range s[slot] {
		if have.GetName() == f.GetName() {
			return fmt.Errorf("HTTP filter %s is there already", f.GetName())
		}
	}
	s[slot] = append(s[slot], f)
	return nil
}

// Filters lists the filters in their order.
func (s *Slots) Filters() []*hcmv3.HttpFilter {
	var out []*hcmv3.HttpFilter
	for _, fs := range s {
		out = append(out, fs...)
	}
	return out
}
