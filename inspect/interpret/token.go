package interpret

import (
	"fmt"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	modulev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/dynamic_modules/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/engine"
)

// Check asks an authority about a credential by its hash, for a plugin instance.
type Check func(hash contract.Hash, plugin string) engine.Found

// nothing is a first level of the token cache that knows nothing.
type nothing struct{}

// Lookup implements [engine.Tokens].
func (nothing) Lookup(contract.Hash, []byte) (int, contract.Answer) { return 0, contract.Miss }

// reader gives the filter the request.
type reader struct {
	r     *Request
	check Check
	// answers are what the authority has answered.
	answers []contract.Answer
}

// Headers implements [engine.Reader].
func (d *reader) Headers(names []string) (values [][]byte, repeated uint32) {
	for i, name := range names {
		value, n := d.r.first(name)
		if n == 0 {
			values = append(values, nil)
			continue
		}
		values = append(values, append([]byte{}, value...))
		if n > 1 {
			repeated |= 1 << i
		}
	}
	return values, repeated
}

// Body implements [engine.Reader].
func (*reader) Body() (engine.BodyState, []byte) { return engine.BodyRead, nil }

// Resolve implements [engine.Reader].
func (d *reader) Resolve(hash contract.Hash, plugin string) engine.Found {
	found := engine.Found{Hash: hash, Answer: contract.Unavailable}
	if d.check != nil {
		found = d.check(hash, plugin)
	}
	d.answers = append(d.answers, found.Answer)
	return found
}

// checkToken runs the token filter, which decides by the same code as in a proxy.
func (p *Proxy) checkToken(out *Passage, f *hcmv3.HttpFilter, own *anypb.Any, c choice, r *Request) error {
	if _, err := unpack(f.GetTypedConfig(), new(modulev3.DynamicModuleFilter)); err != nil {
		return err
	}
	encoded := ""
	switch table := c.table.GetTypedPerFilterConfig()[f.GetName()]; {
	case own != nil:
		text, err := carriedBy(own)
		if err != nil {
			return err
		}
		encoded = text
	case table != nil:
		text, err := carriedBy(table)
		if err != nil {
			return err
		}
		if encoded, err = chainOf(c.route, text); err != nil {
			return err
		}
	}
	if encoded == "" {
		return nil // it only cleans headers
	}
	chain, err := contract.ParseChain([]byte(encoded))
	if err != nil {
		return unsaid("the chain of the token filter")
	}
	return p.runChain(out, f.GetName(), chain, r)
}

// carriedBy returns what a table, a virtual host or a route says to the filter.
func carriedBy(packed *anypb.Any) (string, error) {
	per, err := unpack(packed, new(modulev3.DynamicModuleFilterPerRoute))
	if err != nil {
		return "", err
	}
	text := new(wrapperspb.StringValue)
	if err := per.GetFilterConfig().UnmarshalTo(text); err != nil {
		return "", unsaid("what is said to the token filter")
	}
	return text.GetValue(), nil
}

// chainOf returns the chain that a route names of those that its table carries, empty for none.
func chainOf(route *routev3.Route, table string) (string, error) {
	chains, ok := contract.ParseChains([]byte(table))
	says := route.GetMetadata().GetFilterMetadata()[contract.MetadataNamespace].GetFields()[contract.MetaFilter].GetStringValue()
	if !ok || route == nil || says == "" {
		return "", unsaid("which chain the token filter runs")
	}
	if says == contract.NoChain {
		return "", nil
	}
	named, err := contract.ParseCarried(says)
	if err != nil {
		return "", unsaid("which chain the token filter runs")
	}
	for _, encoded := range chains {
		if contract.ChainContent(encoded) == named.Content {
			return string(encoded), nil
		}
	}
	return "", unsaid("which chain the token filter runs")
}

// runChain decides about a request by a chain of plugins.
func (p *Proxy) runChain(out *Passage, name string, chain *contract.Chain, r *Request) error {
	program, err := engine.Compile(chain)
	if err != nil {
		return unsaid("the chain of the token filter")
	}
	out.Plugins = chain.Plugins
	for _, header := range program.Headers() {
		if err := r.readable(header); err != nil {
			return err
		}
	}
	d := &reader{r: r, check: p.Check}
	req := &engine.Request{Path: []byte(r.Path), BodyState: engine.BodyUnread}
	v, err := program.Settle(req, nothing{}, d, make([]byte, engine.BufferSize))
	if err != nil {
		return unsaid("what the token filter decides")
	}
	switch v.Action {
	case engine.Continue:
		out.say(Step{Kind: StepToken, Name: name, Text: letsPass(chain, d.answers)})
		return nil
	case engine.Issue:
		out.Issued = true
		out.refuse(StepToken, name, 0, "the request is for the OAuth server, which answers it")
		return nil
	case engine.Refuse:
		out.refuse(StepToken, name, uint32(v.Refusal.Status), refusals(v.Refusal, d.answers)) //nolint:gosec // an HTTP status
		return nil
	}
	return unsaid("what the token filter decides")
}

const textInvalid = "the credential is not valid"

func letsPass(chain *contract.Chain, answers []contract.Answer) string {
	if len(answers) == 0 {
		return fmt.Sprintf("the filter runs %d plugins, and needs no credential for this request", len(chain.Plugins))
	}
	return fmt.Sprintf("the filter runs %d plugins, and the credential is valid", len(chain.Plugins))
}

// refusals says why the filter refuses. Why a credential is not valid is for logs alone
// ([contract.Answer]).
func refusals(r *engine.Refusal, answers []contract.Answer) string {
	if len(answers) == 0 {
		return "the filter refuses the request: " + string(r.Reason)
	}
	why := map[contract.Answer]string{
		contract.Unknown: textInvalid, contract.Expired: textInvalid, contract.Revoked: textInvalid,
		contract.Unavailable: "nobody can say whether the credential is valid", contract.Found: "the credential is valid, but not here",
	}[answers[len(answers)-1]]
	return "the filter refuses the request: " + string(r.Reason) + "; " + why
}
