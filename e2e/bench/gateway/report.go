package main

import (
	"context"
	"fmt"
	"io"
)

// report is everything that was measured.
type report struct {
	Issued    []row    `json:"issued"`
	Protected []row    `json:"protected"`
	Memory    []growth `json:"memory"`
}

// row is one scenario.
type row struct {
	What    string   `json:"what"`
	Samples []sample `json:"samples"`
}

// growth is what tokens occupy that were created and used once.
type growth struct {
	Tokens int      `json:"tokens"`
	Before occupied `json:"before"`
	After  occupied `json:"after"`
}

// issue measures one grant.
func (r *report) issue(ctx context.Context, p *plane, l *load, grant string) error {
	op, err := grantsByName[grant](ctx, p, l.clients)
	if err != nil {
		return err
	}
	samples, err := l.run(ctx, p, op)
	if err != nil {
		return err
	}
	r.Issued = append(r.Issued, row{grant, samples})
	return nil
}

// print writes the tables in Markdown.
func (r *report) print(out io.Writer) {
	printRows(out, "tokens issued by", r.Issued)
	printRows(out, "protected requests with", r.Protected)
	if len(r.Memory) == 0 {
		return
	}
	fmt.Fprint(out, "\n| tokens | bytes a token: Envoy | control plane | Redis | store | MB in all: Envoy | control plane | Redis | store |\n|---|---|---|---|---|---|---|---|---|\n")
	for _, g := range r.Memory {
		a, b := g.After, g.Before
		fmt.Fprintf(out, "| %d", g.Tokens)
		for _, grown := range []int64{a.Envoy - b.Envoy, a.ControlPlane - b.ControlPlane, a.Redis - b.Redis, a.Store - b.Store} {
			fmt.Fprintf(out, " | %.0f", float64(grown)/float64(g.Tokens))
		}
		for _, total := range []int64{a.Envoy, a.ControlPlane, a.Redis, a.Store} {
			fmt.Fprintf(out, " | %.1f", float64(total)/1e6)
		}
		fmt.Fprintln(out, " |")
	}
}

func printRows(out io.Writer, title string, rows []row) {
	if len(rows) == 0 {
		return
	}
	fmt.Fprintf(out, "\n| %s | per second of CPU [95 %%] | us of CPU: control plane | Envoy | per second | samples |\n|---|---|---|---|---|---|\n", title)
	for _, r := range rows {
		rate, throughput := estimateOf(r.Samples, perCPUSecond), estimateOf(r.Samples, perSecond)
		var sum sample
		for _, s := range r.Samples {
			sum = sum.plus(s)
		}
		fmt.Fprintf(out, "| %s | %.0f [%.0f, %.0f] | %.0f | %.0f | %.0f | %d |\n", r.What, rate.Value, rate.Low, rate.High,
			micros(sum.ControlPlane, sum.Operations), micros(sum.Envoy, sum.Operations), throughput.Value, len(r.Samples))
	}
}
