package insight_test

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/meshgate/meshgate/controlplane/insight"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/controlplane/store/storetest"
	"github.com/meshgate/meshgate/xds/resource"
)

// onFailpoints opens insights over a store with failpoints that has row "old".
func onFailpoints(t *testing.T) (*rig, *storetest.StatusFailpoints, *storetest.Complaints) {
	t.Helper()
	points, log := &storetest.StatusFailpoints{Status: memstore.NewStatus()}, &storetest.Complaints{}
	r := &rig{t: t, store: &recorder{Status: points.Status}}
	r.open()
	r.Connected(event("old", 1))
	r.close()
	s, err := insight.Open(t.Context(), insight.Options{Store: points, Instance: "cp-1", Log: slog.New(log)})
	if err != nil {
		t.Fatal(err)
	}
	r.Insights = s
	return r, points, log
}

// names returns the dataplanes that have a row.
func names(t *testing.T, s store.Status) (out []string) {
	t.Helper()
	rows, err := s.List(t.Context(), "dataplane_insight", "default")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		out = append(out, row.Key.Name)
	}
	return out
}

// TestEveryStoreCallFailsOnce makes each call of the store fail that insights make for their
// observations. In each case the observation is shown, and is written one interval later.
func TestEveryStoreCallFailsOnce(t *testing.T) {
	for what, tc := range map[string]struct {
		observe func(*rig)
		// want are the dataplanes that are known and written afterwards.
		want []string
	}{
		"a stream":               {func(r *rig) { r.Connected(event("new", 2)) }, []string{"new", "old"}},
		"the end of a stream":    {func(r *rig) { r.Connected(event("new", 2)); r.Disconnected(event("new", 2)) }, []string{"new", "old"}},
		"a refusal":              {func(r *rig) { r.Connected(event("new", 2)); r.Rejected(typed("new", 2, resource.Cluster)) }, []string{"new", "old"}},
		"the end of a dataplane": {func(r *rig) { r.Forget("default", "old") }, nil},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				storetest.EveryCallFailsOnce(t, func() storetest.Trial {
					r, points, log := onFailpoints(t)
					observe := sync.OnceFunc(func() { tc.observe(r) })
					return storetest.Trial{
						Points: points, Complaints: log, End: r.close, State: func() string { return fmt.Sprint(names(t, points.Status)) },
						Act: func() error {
							observe()
							if pass(insight.Interval); !slices.Equal(names(t, points.Status), tc.want) {
								return errors.New("it is not written")
							}
							return nil
						},
						Served: func() error {
							known, err := r.List(t.Context(), "default")
							if got := slices.Sorted(maps.Keys(known)); err == nil && !slices.Equal(got, tc.want) {
								err = fmt.Errorf("%v is known", got)
							}
							return err
						},
					}
				})
			})
		})
	}
}

// TestEveryStoreCallOfTheStartFailsOnce: unreadable insights do not count as none.
func TestEveryStoreCallOfTheStartFailsOnce(t *testing.T) {
	storetest.EveryCallFailsOnce(t, func() storetest.Trial {
		points := &storetest.StatusFailpoints{Status: memstore.NewStatus()}
		return storetest.Trial{Points: points, Act: func() error {
			s, err := insight.Open(t.Context(), insight.Options{Store: points, Log: slog.New(slog.DiscardHandler)})
			if err == nil {
				err = s.Close(t.Context())
			}
			return err
		}}
	})
}
