package interpret

import (
	"fmt"
	"strconv"

	faultcommonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/common/fault/v3"
	compressorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/compressor/v3"
	modulev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/dynamic_modules/v3"
	faultv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/fault/v3"
	limitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/local_ratelimit/v3"
	httprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/anypb"
)

// filter runs one HTTP filter.
func (p *Proxy) filter(out *Passage, f *hcmv3.HttpFilter, c choice, peer []string, r *Request) error {
	own := configured(f.GetName(), c.route, c.host)
	if f.GetDisabled() && own == nil {
		return nil
	}
	switch packed := f.GetTypedConfig(); {
	case packed.MessageIs((*httprbacv3.RBAC)(nil)):
		return requestPermission(out, f, own, peer)
	case packed.MessageIs((*faultv3.HTTPFault)(nil)):
		return injectFault(out, f, own, r)
	case packed.MessageIs((*limitv3.LocalRateLimit)(nil)):
		return limitRate(out, f, own, c)
	case packed.MessageIs((*modulev3.DynamicModuleFilter)(nil)):
		return p.checkToken(out, f, own, c, r)
	case packed.MessageIs((*compressorv3.Compressor)(nil)):
		return nil // it only changes answers
	}
	return unsaid("the HTTP filter %s is not known", f.GetName())
}

// injectFault runs a filter that delays and aborts (extensions.filters.http.fault.v3.HTTPFault).
func injectFault(out *Passage, f *hcmv3.HttpFilter, own *anypb.Any, r *Request) error {
	config := f.GetTypedConfig()
	if own != nil {
		config = own
	}
	fault, err := unpack(config, new(faultv3.HTTPFault))
	if err != nil {
		return err
	}
	if ok, err := headers(fault.GetHeaders(), r); !ok || err != nil {
		return err
	}
	if err := delays(out, f.GetName(), fault.GetDelay()); err != nil {
		return err
	}
	if a := fault.GetAbort(); a != nil {
		if err := understood(a); err != nil {
			return err
		}
		switch share := percent(a.GetPercentage()); {
		case share >= 100:
			out.refuse(StepFault, f.GetName(), a.GetHttpStatus(), "every request is aborted")
			return nil
		case share > 0:
			out.say(Step{
				Kind: StepFault, Name: f.GetName(), Chance: &Chance{Percent: share, Status: a.GetHttpStatus()},
				Text: fmt.Sprintf("%s %% of the requests are aborted with %d", number(share), a.GetHttpStatus()),
			})
		}
	}
	return slows(out, f.GetName(), fault.GetResponseRateLimit())
}

func delays(out *Passage, name string, d *faultcommonv3.FaultDelay) error {
	if d == nil {
		return nil
	}
	if share := percent(d.GetPercentage()); share > 0 {
		out.say(Step{
			Kind: StepFault, Name: name, Chance: &Chance{Percent: share, Delay: d.GetFixedDelay().AsDuration()},
			Text: fmt.Sprintf("%s %% of the requests are delayed by %s", number(share), d.GetFixedDelay().AsDuration()),
		})
	}
	return understood(d)
}

func slows(out *Passage, name string, l *faultcommonv3.FaultRateLimit) error {
	if l == nil {
		return nil
	}
	if share := percent(l.GetPercentage()); share > 0 {
		out.say(Step{
			Kind: StepFault, Name: name, Chance: &Chance{Percent: share, Slows: true},
			Text: fmt.Sprintf("%s %% of the answers are slowed down to %d KiB/s", number(share), l.GetFixedLimit().GetLimitKbps()),
		})
	}
	return understood(l)
}

func percent(f *typev3.FractionalPercent) float64 {
	n := float64(f.GetNumerator())
	switch f.GetDenominator() {
	case typev3.FractionalPercent_TEN_THOUSAND:
		return n / 100
	case typev3.FractionalPercent_MILLION:
		return n / 10000
	}
	return n
}

func number(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// limitRate runs a filter that limits how many requests pass
// (extensions.filters.http.local_ratelimit.v3.LocalRateLimit). Each route counts for itself.
func limitRate(out *Passage, f *hcmv3.HttpFilter, own *anypb.Any, c choice) error {
	config, key := f.GetTypedConfig(), f.GetName()
	if own != nil {
		config, key = own, f.GetName()+" "+c.table.GetName()+" "+strconv.Itoa(c.at)
	}
	limit, err := unpack(config, new(limitv3.LocalRateLimit))
	if err != nil {
		return err
	}
	enabled, enforced := limit.GetFilterEnabled().GetDefaultValue(), limit.GetFilterEnforced().GetDefaultValue()
	bucket := limit.GetTokenBucket()
	if bucket == nil || percent(enabled) == 0 || percent(enforced) == 0 {
		return nil
	}
	if percent(enabled) < 100 || percent(enforced) < 100 {
		return unsaid("which requests a limit counts")
	}
	status := uint32(429)
	if s := limit.GetStatus(); s != nil {
		status = uint32(max(s.GetCode(), 400)) // Envoy raises what is no error
	}
	chance := &Chance{Requests: bucket.GetMaxTokens(), Interval: bucket.GetFillInterval().AsDuration(), Status: status, Key: key}
	if n := bucket.GetTokensPerFill(); n.GetValue() != bucket.GetMaxTokens() {
		return unsaid("how a limit is filled")
	}
	out.say(Step{Kind: StepLimit, Name: f.GetName(), Chance: chance, Text: fmt.Sprintf(
		"%d requests in %s may pass, and those above are answered with %d", chance.Requests, chance.Interval, status)})
	return nil
}
