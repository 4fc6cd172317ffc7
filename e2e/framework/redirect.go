package framework

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// Redirect has the kernel of this machine send TCP connections from it to an address and a port to
// another port of the loopback address, as the rules of a transparent proxy do, and nothing else.
// It returns how to end that. The error is os.ErrPermission for processes that may not have rules.
func Redirect(from netip.AddrPort, to uint16) (end func() error, err error) {
	table := &nftables.Table{
		Name: fmt.Sprintf("meshgate_test_%d_%s_%d", os.Getpid(), from.Addr(), from.Port()), Family: nftables.TableFamilyIPv4,
	}
	change := func(how func(*nftables.Conn)) error {
		c, err := nftables.New()
		if err != nil {
			return err
		}
		how(c)
		return c.Flush()
	}
	port := func(n uint16) []byte { return binary.BigEndian.AppendUint16(nil, n) }
	equal := func(data []byte) expr.Any { return &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: data} }
	err = change(func(c *nftables.Conn) {
		chain := c.AddChain(&nftables.Chain{
			Name: "out", Table: c.AddTable(table), Type: nftables.ChainTypeNAT,
			Hooknum: nftables.ChainHookOutput, Priority: nftables.ChainPriorityNATDest,
		})
		c.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: []expr.Any{
			&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1}, equal([]byte{unix.IPPROTO_TCP}),
			&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: 16, Len: 4}, equal(from.Addr().AsSlice()),
			&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2}, equal(port(from.Port())),
			&expr.Immediate{Register: 1, Data: port(to)},
			&expr.Redir{RegisterProtoMin: 1},
		}})
	})
	return func() error { return change(func(c *nftables.Conn) { c.DelTable(table) }) }, err
}
