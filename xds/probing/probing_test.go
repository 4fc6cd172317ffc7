package probing_test

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/proto"

	"github.com/meshgate/meshgate/xds/probing"
)

func probe(port uint16, change ...func(*probing.Probe)) probing.Probe {
	p := probing.Probe{
		Inbound: probing.Inbound{Port: port}, At: netip.MustParseAddrPort("127.0.0.1:80"), Interval: time.Second, Timeout: 2 * time.Second, Unhealthy: 1, Healthy: 1,
	}
	for _, c := range change {
		c(&p)
	}
	return p
}

// TestProbesTravel: agents read what was described, and nothing that is too much or unclear.
func TestProbesTravel(t *testing.T) {
	many := func(n int) (out []probing.Probe) {
		for i := range n {
			out = append(out, probe(uint16(i+1)))
		}
		return out
	}
	one := func(change func(*probing.Probe)) []probing.Probe { return []probing.Probe{probe(1, change)} }
	for name, tt := range map[string]struct {
		is   []probing.Probe
		good bool
	}{
		"nothing": {nil, true},
		"everything": {one(func(p *probing.Probe) {
			p.Address, p.Listener, p.From, p.Ready = "10.0.0.1", "inbound:10.0.0.1:1", netip.MustParseAddr("127.0.0.6"), true
		}), true},
		"two addresses": {append(many(1), probe(1, func(p *probing.Probe) { p.Address = "10.0.0.1" })), true},
		"the most":      {many(probing.Max), true},
		"too many":      {many(probing.Max + 1), false},
		"twice":         {append(many(1), many(1)...), false},
		"no address":    {one(func(p *probing.Probe) { p.At = netip.AddrPort{} }), false},
		"all the time":  {one(func(p *probing.Probe) { p.Interval = time.Millisecond }), false},
		"no timeout":    {one(func(p *probing.Probe) { p.Timeout = 0 }), false},
		"never well":    {one(func(p *probing.Probe) { p.Healthy = 0 }), false},
		"never ill":     {one(func(p *probing.Probe) { p.Unhealthy = 0 }), false},
	} {
		c, err := probing.Describe(tt.is)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := proto.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		got, err := probing.Read(raw)
		if (err == nil) != tt.good {
			t.Errorf("%s: %v", name, err)
		} else if err == nil && !cmp.Equal(got, tt.is, cmpopts.EquateComparable(netip.AddrPort{}, netip.Addr{}), cmpopts.EquateEmpty()) {
			t.Errorf("%s: %v", name, got)
		}
	}
	for name, raw := range map[string]string{"nothing": "", "no message": "\xff"} {
		if _, err := probing.Read([]byte(raw)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestLargestReportFits: a report of the most probes, each with the longest address, has room.
func TestLargestReportFits(t *testing.T) {
	r := probing.Report{Instance: strings.Repeat("f", 64)}
	for range probing.Max {
		r.Inbounds = append(r.Inbounds, probing.Finding{Inbound: probing.Inbound{Address: strings.Repeat("ffff:", 6) + "255.255.255.255", Port: 65535}})
	}
	if body, err := json.Marshal(r); err != nil || len(body) > probing.MaxReport {
		t.Error(len(body), err)
	}
}
