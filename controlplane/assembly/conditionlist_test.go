package assembly

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshgate/meshgate/controlplane/cli/clitest"
	"github.com/meshgate/meshgate/controlplane/health"
	"github.com/meshgate/meshgate/controlplane/meshapi"
	"github.com/meshgate/meshgate/controlplane/nodes/nodestest"
	"github.com/meshgate/meshgate/controlplane/operator"
)

// atEase is a control plane with conditions that serves.
func atEase() *ControlPlane {
	cp := &ControlPlane{instance: "cp-1"}
	cp.ready.conditions = newConditions(slog.New(slog.DiscardHandler))
	cp.ready.serving.Store(true)
	return cp
}

// serveStatus serves what `meshgate status` asks for.
func serveStatus(t *testing.T, cp *ControlPlane, known *nodestest.Nodes) (address string) {
	t.Helper()
	s := httptest.NewServer(meshapi.Handler(meshapi.Options{Nodes: known, Conditions: cp.conditions}))
	t.Cleanup(s.Close)
	return s.URL
}

// asked is what GET /conditions answers.
func asked(t *testing.T, cp *ControlPlane, query string) (l health.Report) {
	t.Helper()
	w := httptest.NewRecorder()
	cp.conditions(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/conditions?"+query, http.NoBody))
	if err := json.Unmarshal(w.Body.Bytes(), &l); err != nil || w.Code != http.StatusOK {
		t.Errorf("%s: %d %s", query, w.Code, w.Body)
	}
	return l
}

// TestConditionsAreAwaited: the answer comes at once for whoever does not know the mark,
// with the change for whoever does, and at the end of the time otherwise.
func TestConditionsAreAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cp := atEase()
		begin := time.Now()
		first := asked(t, cp, "since=another&wait=10s")
		if first.Message != health.Ready || len(first.Conditions) != 10 || time.Since(begin) != 0 {
			t.Errorf("%+v after %s", first, time.Since(begin))
		}
		if same := asked(t, cp, "wait=10s&since="+first.Mark); same.Mark != first.Mark || time.Since(begin) != 10*time.Second {
			t.Errorf("%+v after %s", same, time.Since(begin))
		}
		begin = time.Now()
		time.AfterFunc(time.Second, func() {
			cp.ready.conditions.Set(conditionStore, health.Finding{State: health.Failed, Reason: "unknown", Text: "the disk"})
		})
		changed := asked(t, cp, "wait=10s&since="+first.Mark)
		if changed.Mark == first.Mark || changed.Message != "the disk" || changed.Conditions[0].State != health.Failed || time.Since(begin) != time.Second {
			t.Errorf("%+v after %s", changed, time.Since(begin))
		}
		// The same trouble in other words is none that anybody waits for.
		cp.ready.conditions.Set(conditionStore, health.Finding{State: health.Failed, Reason: "unknown", Text: "the disk!"})
		if again := asked(t, cp, "since="+changed.Mark); again.Mark != changed.Mark || again.Message != "the disk!" {
			t.Errorf("%+v", again)
		}
	})
	for _, query := range []string{"wait=1h", "wait=x", "wait=-1s", "wait=%zz"} {
		w := httptest.NewRecorder()
		atEase().conditions(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/conditions?"+query, http.NoBody))
		if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), `{"message":"`) {
			t.Errorf("%s: %d %s", query, w.Code, w.Body)
		}
	}
}

// TestStatusTellsConditions: what is the matter with the control plane comes first, since
// when, and is a reason for the code.
func TestStatusTellsConditions(t *testing.T) {
	known := nodestest.New()
	known.Documents = known.Documents[:1]
	cp := atEase()
	address := serveStatus(t, cp, known)
	ask := func() (string, int) {
		out, err := clitest.Execute(t, operator.StatusCommand(), "--address", address)
		return out, clitest.Code(err)
	}
	cp.ready.conditions.Set(conditionRedis, health.Finding{State: health.Degraded, Reason: "unreachable", Text: "redis is away\x1b[2J: start it"})
	since := cp.ready.conditions.Get(conditionRedis).Since.Format(time.RFC3339)
	head, _, _ := strings.Cut(strings.Join(strings.Fields(first(ask())), " "), " NAME ")
	if want := "WRONG SINCE WHOM WHY redis degraded " + since + " control plane redis is away?[2J: start it"; head != want {
		t.Errorf("%s", head)
	}
	if _, exit := ask(); exit != operator.ExitUneven {
		t.Error(exit)
	}
	cp.ready.conditions.Set(conditionStore, health.Finding{State: health.Failed, Reason: "unknown", Text: "the disk is gone"})
	out, _ := ask()
	if store, redis := strings.Index(out, "\nstore failed "), strings.Index(out, "\nredis degraded "); store < 0 || redis < store || strings.Contains(out, "\nnot ready ") {
		t.Errorf("%s", out)
	}
	cp.ready.checks = append(cp.ready.checks, func() string { return "gateway: no port" })
	if out, _ := ask(); !strings.Contains(out, "\nnot ready       -                     control plane  gateway: no port\n") {
		t.Errorf("%s", out)
	}
	json, err := clitest.Execute(t, operator.StatusCommand(), "--address", address, "-o", "json")
	if clitest.Code(err) != operator.ExitUneven || !strings.Contains(json, `"message":"gateway: no port","conditions":[{"name":"store","state":"failed","reason":"unknown"`) {
		t.Errorf("%v %s", err, json)
	}
}

func first(text string, _ int) string { return text }
