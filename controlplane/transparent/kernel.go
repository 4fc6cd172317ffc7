package transparent

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
)

// ours is the table in the kernel.
func ours() *nftables.Table {
	return &nftables.Table{Name: Table, Family: nftables.TableFamilyINet}
}

// Install has the kernel redirect by chains, in the place of what was installed before. The
// change is one transaction: no connection meets a part of it. It concerns connections that
// begin from then on.
func Install(chains []Chain) error {
	c, err := nftables.New()
	if err != nil {
		return explained(err)
	}
	c.AddTable(ours()) // there is something to delete then
	c.DelTable(ours())
	table := c.AddTable(ours())
	accept := nftables.ChainPolicyAccept
	for _, chain := range chains {
		hook := nftables.ChainHookPrerouting
		if chain.Hook == Output {
			hook = nftables.ChainHookOutput
		}
		into := c.AddChain(&nftables.Chain{
			Name: chain.Name, Table: table, Type: nftables.ChainTypeNAT, Hooknum: hook,
			Priority: nftables.ChainPriorityNATDest, Policy: &accept,
		})
		for _, r := range chain.Rules {
			c.AddRule(&nftables.Rule{Table: table, Chain: into, Exprs: r.exprs()})
		}
	}
	return explained(c.Flush())
}

// Uninstall removes what [Install] has added. It reports whether there was something.
// Connections that were redirected stay so until they end.
func Uninstall() (was bool, err error) {
	if was, err = Installed(); err != nil || !was {
		return false, err
	}
	c, err := nftables.New()
	if err != nil {
		return false, explained(err)
	}
	c.DelTable(ours())
	return true, explained(c.Flush())
}

// Installed reports whether the kernel has the table.
func Installed() (bool, error) {
	c, err := nftables.New()
	if err != nil {
		return false, explained(err)
	}
	tables, err := c.ListTablesOfFamily(nftables.TableFamilyINet)
	if err != nil {
		return false, explained(err)
	}
	for _, t := range tables {
		if t.Name == Table {
			return true, nil
		}
	}
	return false, nil
}

// explained says what to do about an error of the kernel.
func explained(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("only root may do this, or who has CAP_NET_ADMIN: %w", err)
	}
	return fmt.Errorf("the kernel refuses the rules: it must have nf_tables with NAT (modules nf_tables, nft_nat, nft_redir): %w", err)
}

// exprs is a rule as the kernel takes it.
func (r Rule) exprs() (out []expr.Any) {
	for _, c := range r.When {
		out = append(out, c.exprs()...)
	}
	if r.Refuse {
		return append(out, &expr.Verdict{Kind: expr.VerdictDrop})
	}
	if r.To == 0 {
		return append(out, &expr.Verdict{Kind: expr.VerdictReturn})
	}
	return append(out,
		&expr.Immediate{Register: 1, Data: binary.BigEndian.AppendUint16(nil, r.To)},
		&expr.Redir{RegisterProtoMin: 1, RegisterProtoMax: 1},
	)
}
