package faultinjection

import (
	"math"
	"strconv"
	"time"

	faultcommonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/common/fault/v3"
	faultv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/fault/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/meshgate/meshgate/xds/draft"
	"github.com/meshgate/meshgate/xds/policy"
)

// filter is the name of the first filter; the others append their number.
const filter = "envoy.filters.http.fault"

func name(i int) string {
	if i == 0 {
		return filter
	}
	return filter + "." + strconv.Itoa(i)
}

// inbound adds filters that do nothing by themselves. The faults come with the routes. So a
// change of faults applies to open connections, and drains none as long as the number of
// faults is the same. A connection without a filter is drained.
func inbound(d *draft.Inbound, s *policy.Selection) error {
	if d.HTTP == nil {
		return nil
	}
	for i := range faults(s) {
		f, err := draft.HTTPFilter(name(i), uncounted())
		if err != nil {
			return err
		}
		if err := d.Filters.Put(draft.SlotFault, f); err != nil {
			return err
		}
	}
	return nil
}

func inboundRoutes(r *draft.Routes, s *policy.Selection) error {
	for i, f := range faults(s) {
		if err := r.Configure(name(i), f); err != nil {
			return err
		}
	}
	return nil
}

// faults returns the faults of all policies, each for one group of callers.
func faults(s *policy.Selection) (out []*faultv3.HTTPFault) {
	for _, p := range s.Policies {
		spec, ok := p.Spec.(*Spec)
		if !ok || spec.Conf == nil {
			continue
		}
		for _, callers := range draft.FromSources(spec.Sources) {
			f := of(spec.Conf)
			f.Headers = callers
			out = append(out, f)
		}
	}
	return out
}

// uncounted returns a fault without statistics per caller. Callers choose the names in the
// header, so such counters would grow Envoy's memory without end.
func uncounted() *faultv3.HTTPFault {
	return &faultv3.HTTPFault{DisableDownstreamClusterStats: true}
}

func of(c *Conf) *faultv3.HTTPFault {
	f := uncounted()
	if d := c.Delay; d != nil && d.Value.Or(0) > 0 {
		f.Delay = &faultcommonv3.FaultDelay{
			FaultDelaySecifier: &faultcommonv3.FaultDelay_FixedDelay{FixedDelay: durationpb.New(time.Duration(*d.Value))},
			Percentage:         fraction(d.Percentage),
		}
	}
	if a := c.Abort; a != nil && a.HTTPStatus != nil {
		f.Abort = &faultv3.FaultAbort{ErrorType: &faultv3.FaultAbort_HttpStatus{HttpStatus: *a.HTTPStatus}, Percentage: fraction(a.Percentage)}
	}
	if b := c.ResponseBandwidth; b != nil {
		if kib, ok := rate(b.Limit); ok {
			f.ResponseRateLimit = &faultcommonv3.FaultRateLimit{
				LimitType:  &faultcommonv3.FaultRateLimit_FixedLimit_{FixedLimit: &faultcommonv3.FaultRateLimit_FixedLimit{LimitKbps: kib}},
				Percentage: fraction(b.Percentage),
			}
		}
	}
	return f
}

// fraction returns a percentage in the coarsest of Envoy's units that can express it.
func fraction(percentage *float64) *typev3.FractionalPercent {
	if percentage == nil {
		return &typev3.FractionalPercent{}
	}
	for _, unit := range []struct {
		of   typev3.FractionalPercent_DenominatorType
		each float64
	}{{typev3.FractionalPercent_HUNDRED, 1}, {typev3.FractionalPercent_TEN_THOUSAND, 100}} {
		if n := math.Round(*percentage * unit.each); math.Abs(n-*percentage*unit.each) < 1e-6 {
			return &typev3.FractionalPercent{Numerator: uint32(n), Denominator: unit.of}
		}
	}
	return &typev3.FractionalPercent{Numerator: uint32(math.Round(*percentage * 1e4)), Denominator: typev3.FractionalPercent_MILLION}
}
