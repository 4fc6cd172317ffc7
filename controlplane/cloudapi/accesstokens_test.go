package cloudapi

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/store"
)

const accessTokensPath = "/v2/personal-access-tokens"

// planesOf returns what is stored of the control planes of a token.
func (f *planeFixture) planesOf(id string) (planes []string) {
	f.t.Helper()
	err := f.store.View(f.t.Context(), func(r store.Reader) error {
		res, err := r.Get(cloud.AccessTokens, "", id)
		if err == nil {
			planes = res.Spec.(*cloud.AccessToken).ControlPlanes
		}
		return err
	})
	if err != nil {
		f.t.Fatal(err)
	}
	return planes
}

// TestAccessTokenOfControlPlanes: a token is made for names and ids, is stored with scopes, and is shown
// with the names of the moment.
func TestAccessTokenOfControlPlanes(t *testing.T) {
	f := setupPlanes(t)
	shop, team := f.plane("shop", cloud.TypeHybrid), f.plane("team", cloud.TypeGroup)
	for name, test := range map[string]struct {
		given         string
		stored, shown []string
	}{
		"name":    {`["shop"]`, []string{shop}, []string{"shop"}},
		"id":      {fmt.Sprintf(`[%q]`, shop), []string{shop}, []string{"shop"}},
		"group":   {`["team"]`, []string{team}, []string{"team"}},
		"first":   {`["default"]`, []string{"default"}, []string{"default"}},
		"its id":  {fmt.Sprintf(`[%q]`, cloud.DefaultID), []string{"default"}, []string{"default"}},
		"doubled": {fmt.Sprintf(`["shop",%q,"default"]`, shop), []string{shop, "default"}, []string{"shop", "default"}},
		"all":     {`[]`, nil, nil},
		"none":    {`null`, nil, nil},
	} {
		made := f.expects(http.StatusCreated, "POST", accessTokensPath, fmt.Sprintf(`{"name":%q,"role":"viewer","control_planes":%s}`, name, test.given))
		id, _ := made["id"].(string)
		if got := f.planesOf(id); !slices.Equal(got, test.stored) {
			t.Errorf("%s: stored are %q", name, got)
		}
		for _, doc := range []map[string]any{made, f.expects(http.StatusOK, "GET", accessTokensPath+"/"+id, "")} {
			if got := texts(doc[fieldPlanes]); !slices.Equal(got, test.shown) {
				t.Errorf("%s: shown are %q", name, got)
			}
		}
	}
	f.expects(http.StatusOK, "PATCH", controlPlanes+"/"+shop, `{"name":"store"}`)
	f.expects(http.StatusNoContent, "DELETE", controlPlanes+"/"+team, "")
	list := f.expects(http.StatusOK, "GET", accessTokensPath+"?filter[name][oeq]=name,group", "")
	var got []string
	for _, doc := range list["data"].([]any) {
		got = append(got, texts(doc.(map[string]any)[fieldPlanes])...)
	}
	if slices.Sort(got); !slices.Equal(got, slices.Sorted(slices.Values([]string{"store", team}))) {
		t.Errorf("after a new name and a deletion, %q are shown", got)
	}
}

// TestAccessTokenOfUnknownControlPlanes: each one that does not exist is named, and no token is made.
func TestAccessTokenOfUnknownControlPlanes(t *testing.T) {
	f := setupPlanes(t)
	f.plane("shop", cloud.TypeHybrid)
	many := `"x"` + strings.Repeat(`,"x"`, maxPlanesOfToken)
	for planes, want := range map[string]string{
		`["shop","shoppe","nil"]`:                  "control_planes[1]/there is no control plane of this name or id/invalid control_planes[2]/there is no control plane of this name or id/invalid",
		`["10000000-0000-4000-8000-000000000000"]`: "control_planes[0]/there is no control plane of this name or id/invalid",
		`[""]`:           "control_planes[0]/there is no control plane of this name or id/invalid",
		"[" + many + "]": "control_planes/must be at most 256/max_items",
		`"shop"`:         "control_planes/expected a set/is_array",
		`[1]`:            "control_planes[0]/expected a string/is_string",
	} {
		doc := f.expects(http.StatusBadRequest, "POST", accessTokensPath, `{"name":"a","role":"viewer","control_planes":`+planes+`}`)
		var got []string
		list, _ := doc["invalid_parameters"].([]any)
		for _, v := range list {
			p := v.(map[string]any)
			got = append(got, fmt.Sprintf("%v/%v/%v", p["field"], p["reason"], p["rule"]))
		}
		if got := strings.Join(got, " "); got != want {
			t.Errorf("%.60s: %s\nwant %s", planes, got, want)
		}
	}
	if list := f.expects(http.StatusOK, "GET", accessTokensPath, ""); len(list["data"].([]any)) != 0 {
		t.Errorf("there are tokens: %v", list)
	}
}

// TestAccessTokenByForm: the one value of a form is a list of one name.
func TestAccessTokenByForm(t *testing.T) {
	f := setupPlanes(t)
	f.plane("shop", cloud.TypeHybrid)
	for planes, want := range map[string]int{"shop": http.StatusCreated, "shoppe": http.StatusBadRequest} {
		r := httptest.NewRequest("POST", accessTokensPath, strings.NewReader("name=a&role=viewer&control_planes="+planes))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Authorization", "Bearer admin")
		w := httptest.NewRecorder()
		if f.handler.ServeHTTP(w, r); w.Code != want {
			t.Errorf("%s: %d %s", planes, w.Code, w.Body)
		}
	}
}

func texts(list any) (out []string) {
	values, _ := list.([]any)
	for _, v := range values {
		out = append(out, fmt.Sprint(v))
	}
	return out
}
