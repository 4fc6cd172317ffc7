// Package enrol is how a node joins: with its token it tells the control plane
// what it listens on, and is told what its filter needs beyond xDS.
package enrol

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/identity"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// Path of the endpoint on the data-plane server.
const Path = "/bootstrap"

const maxBody = 64 << 10

// Answer is what a node is told. Its secrets belong into files of mode 0600.
type Answer struct {
	// Node is the node id that the token stands for.
	Node string `json:"node"`
	// RedisURL is where the second level of the token cache is; it may hold a
	// password.
	RedisURL string `json:"redis_url,omitempty"`
	// RedisCA is the PEM bundle that signs it, for rediss://.
	RedisCA string `json:"redis_ca,omitempty"`
}

// Server answers enrolments.
type Server struct {
	Store  store.Store
	Tokens *identity.Tokens
	// Settings returns the Redis part of the answer.
	Settings func() (url, ca string)
}

// ServeHTTP handles POST /bootstrap.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer, err := s.enrol(w, r)
	code, doc := http.StatusOK, any(answer)
	if err != nil {
		entry := httpkit.EntryOf(r.Context())
		entry.Code, entry.Cause = string(fault.CodeOf(err)), err
		code, doc = http.StatusInternalServerError, map[string]string{"message": httpkit.TextInternal}
		if e, ok := errors.AsType[*fault.Error](err); ok && statuses[e.Code] != 0 {
			code, doc = statuses[e.Code], map[string]string{"message": e.Error()}
		}
	}
	_ = httpkit.WriteJSON(w, code, doc) // a node that is gone asks again
}

// statuses has the codes that a node can do something about; any other is an
// unexpected error.
var statuses = map[fault.Code]int{
	fault.Denied: http.StatusUnauthorized, fault.Invalid: http.StatusUnprocessableEntity,
	fault.Unsupported: http.StatusMethodNotAllowed, fault.Unavailable: http.StatusServiceUnavailable,
	fault.TooLarge: http.StatusRequestEntityTooLarge,
}

func (s *Server) enrol(w http.ResponseWriter, r *http.Request) (*Answer, error) {
	if r.Method != http.MethodPost {
		return nil, fault.New(fault.Unsupported, "only POST is supported")
	}
	claims, err := s.Tokens.Check(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
	if err != nil {
		return nil, fault.New(fault.Denied, "the node token is not valid")
	}
	var in gateway.Instance
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return nil, fault.New(fault.TooLarge, "the enrolment is too large")
		}
		return nil, fault.Wrap(fault.Invalid, err, "the enrolment is not valid JSON")
	}
	if err := check(&in); err != nil {
		return nil, err
	}
	if err := s.remember(r.Context(), claims, &in); err != nil {
		return nil, err
	}
	a := &Answer{Node: claims.NodeID()}
	a.RedisURL, a.RedisCA = s.Settings()
	return a, nil
}

func check(in *gateway.Instance) error {
	var vs []fault.Violation
	if net.ParseIP(in.Listen) == nil {
		vs = append(vs, fault.Violation{Path: "listen", Message: "must be an IP address"})
	}
	if !isPort(in.HTTPPort) {
		vs = append(vs, fault.Violation{Path: "http_port", Message: "must be a port"})
	}
	if !isPort(in.HTTPSPort) {
		vs = append(vs, fault.Violation{Path: "https_port", Message: "must be a port"})
	}
	host, text, err := net.SplitHostPort(in.ControlPlane)
	port, portErr := strconv.Atoi(text)
	if err != nil || portErr != nil || host == "" || !isPort(port) {
		vs = append(vs, fault.Violation{Path: "control_plane", Message: "must be host:port"})
	}
	return fault.Violated(vs)
}

func isPort(n int) bool { return n >= 1 && n <= 65535 }

// remember stores what the node said, unless that is known already.
func (s *Server) remember(ctx context.Context, c *identity.Claims, in *gateway.Instance) error {
	_, err := s.Store.Update(ctx, model.Credential, func(tx store.Tx) error {
		res := &model.Resource{Kind: gateway.Instances, Scope: c.ControlPlane, Name: c.Name, Spec: in}
		old, err := tx.Get(gateway.Instances, c.ControlPlane, c.Name)
		switch {
		case fault.Is(err, fault.NotFound):
			_, err = tx.Create(res)
		case err == nil && *old.Spec.(*gateway.Instance) != *in:
			_, err = tx.Update(res, 0)
		}
		return err
	})
	return err
}

// Enrol calls the data-plane server at an https:// base URL. It returns a
// [*Refused] if asking again would not help; any other error may pass.
func Enrol(ctx context.Context, client *http.Client, base, token string, in gateway.Instance) (*Answer, error) {
	body, err := json.Marshal(in)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+Path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
	if err != nil {
		return nil, err
	}
	if resp.StatusCode >= http.StatusInternalServerError {
		return nil, fmt.Errorf("the control plane cannot enrol nodes now: it answered %d", resp.StatusCode)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, &Refused{Status: resp.StatusCode, Text: strings.TrimSpace(string(text))}
	}
	var a Answer
	if err := json.Unmarshal(text, &a); err != nil {
		return nil, fmt.Errorf("the control plane's answer cannot be read: %w", err)
	}
	return &a, nil
}

// Refused is the error of an enrolment that the control plane understood and
// turned down, with its HTTP status and its reason.
type Refused struct {
	Status int
	Text   string
}

// Error implements error.
func (e *Refused) Error() string {
	return fmt.Sprintf("the control plane refused the enrolment with %d: %s", e.Status, e.Text)
}
