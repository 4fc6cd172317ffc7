package chaos_test

import (
	"context"
	"math/rand/v2"
	"net/http"
	"net/url"
)

// way is one way to revoke.
type way struct {
	name   string
	weight int
	// gone is set where the answer 404 says that somebody was faster: what is gone
	// must be gone everywhere before it is called so.
	gone bool
	// single is set where a second call would be another one.
	single bool
	// prepare makes credentials and returns the call that ends them.
	prepare func(ctx context.Context, a *actor, w *way) ([]*credential, func() reply)
	// play replaces all of it.
	play func(ctx context.Context, a *actor, w *way)
}

// pick is a random way, by weight.
func pick(rng *rand.Rand) *way {
	sum := 0
	for _, w := range ways {
		sum += w.weight
	}
	n := rng.IntN(sum)
	for _, w := range ways {
		if n -= w.weight; n < 0 {
			return w
		}
	}
	panic("weights")
}

// Ways that stories take, too.
var (
	deletedToken       = &way{name: "DELETE of a token by id", weight: 12, gone: true, prepare: byPath(func(id, _ string) string { return id })}
	deletedApplication = &way{name: "DELETE of an application", weight: 1, gone: true, prepare: applicationWay("")}
)

// ways are all.
var ways = []*way{
	deletedToken,
	{name: "DELETE of a token by value", weight: 8, gone: true, prepare: byPath(func(_, value string) string { return value })},
	{name: "DELETE of a token that a client got", weight: 4, gone: true, prepare: issued},
	{name: "DELETE and the same value again", weight: 4, gone: true, play: again},
	{name: "PATCH of a token's scope", weight: 1, prepare: patchScope},
	{name: "PATCH of a token's value", weight: 1, prepare: patchValue},
	deletedApplication,
	{name: "DELETE of an application's tokens", weight: 1, prepare: applicationWay("/oauth2_tokens")},
	{name: "PATCH of an application", weight: 1, prepare: patchApplication},
	{name: "DELETE of a consumer", weight: 1, gone: true, prepare: consumerWay("")},
	{name: "DELETE of a consumer's tokens", weight: 1, prepare: consumerWay("/oauth2_tokens")},
	{name: "PATCH of a consumer", weight: 1, prepare: patchConsumer},
	{name: "DELETE of a user's tokens", weight: 1, prepare: user},
	{name: "DELETE of an API key", weight: 2, gone: true, prepare: keyWay(true)},
	{name: "PATCH of an API key", weight: 1, prepare: keyWay(false)},
	{name: "the revocation endpoint", weight: 2, prepare: revocationEndpoint},
	{name: "a refresh", weight: 2, single: true, prepare: refresh},
	{name: "a refresh token used twice", weight: 2, single: true, prepare: reuse},
}

// byPath deletes a token by what names it.
func byPath(key func(id, value string) string) func(context.Context, *actor, *way) ([]*credential, func() reply) {
	return func(ctx context.Context, a *actor, w *way) ([]*credential, func() reply) {
		id, value := a.token(ctx, a.w.app, nil)
		if id == "" {
			return nil, nil
		}
		return []*credential{a.bearer(w.name, "token "+id, value)}, a.deletes("/oauth2_tokens/" + key(id, value))
	}
}

// deletes is a DELETE.
func (a *actor) deletes(path string) func() reply {
	return func() reply {
		return a.admin(http.MethodDelete, path, nil)
	}
}

// patches is a PATCH.
func (a *actor) patches(path string, doc map[string]any) func() reply {
	return func() reply {
		return a.admin(http.MethodPatch, path, doc)
	}
}

func issued(ctx context.Context, a *actor, w *way) ([]*credential, func() reply) {
	access, _ := a.grant(ctx, url.Values{"grant_type": {"client_credentials"}, "scope": {"email"}})
	if access == "" {
		return nil, nil
	}
	return []*credential{a.bearer(w.name, a.name("issued"), access)}, a.deletes("/oauth2_tokens/" + access)
}

// again issues, revokes and issues the same value several times.
func again(ctx context.Context, a *actor, w *way) {
	value := a.value()
	c := &credential{way: w.name, name: a.name("again"), show: func(p *proxy) (int, bool) { return a.see(p.call, value, "", "", "") }}
	b := a.w.book
	doc := map[string]any{
		"credential": map[string]any{"id": a.w.app}, "service": map[string]any{"id": a.w.service}, "expires_in": life, "access_token": value,
	}
	confirmed := false
	for range 2 + a.rng.IntN(2) {
		e := event{verb: create, call: b.time(), faults: b.faults()}
		r := a.admin(http.MethodPost, "/oauth2_tokens", doc)
		e.status, e.remark = r.status, r.remark()
		// An answer of any kind comes after what the call did. That it did it is the
		// assumption which allows more.
		if e.ret = b.time(); e.status == 0 {
			e.ret = never
		}
		c.note(e)
		a.warm(ctx, []*credential{c}, e.status == http.StatusCreated)
		if confirmed = a.end(ctx, w, []*credential{c}, a.deletes("/oauth2_tokens/"+value)); !confirmed {
			break
		}
	}
	b.keep([]*credential{c}, confirmed)
}

func patchScope(ctx context.Context, a *actor, w *way) ([]*credential, func() reply) {
	id, value := a.token(ctx, a.w.app, nil)
	if id == "" {
		return nil, nil
	}
	return []*credential{a.state(w.name, "scope of token "+id, value, "X-Authenticated-Scope", "email")},
		a.patches("/oauth2_tokens/"+id, map[string]any{"scope": "phone"})
}

func patchValue(ctx context.Context, a *actor, w *way) ([]*credential, func() reply) {
	id, value := a.token(ctx, a.w.app, nil)
	if id == "" {
		return nil, nil
	}
	return []*credential{a.bearer(w.name, "value of token "+id, value)},
		a.patches("/oauth2_tokens/"+id, map[string]any{"access_token": a.value()})
}

// tokens issues some of an application.
func (a *actor) tokens(ctx context.Context, w *way, n int, app string, more map[string]any) (cs []*credential) {
	for range n {
		id, value := a.token(ctx, app, more)
		if id == "" {
			return nil
		}
		cs = append(cs, a.bearer(w.name, "token "+id, value))
	}
	return cs
}

// newApplication makes one of a consumer.
func (a *actor) newApplication(ctx context.Context, of string) (id, name string) {
	name = a.name("app")
	return a.create(ctx, "/consumers/"+of+"/oauth2", application(name, name+"-secret")).text("id"), name
}

func applicationWay(below string) func(context.Context, *actor, *way) ([]*credential, func() reply) {
	return func(ctx context.Context, a *actor, w *way) ([]*credential, func() reply) {
		id, _ := a.newApplication(ctx, consumer)
		if id == "" {
			return nil, nil
		}
		return a.tokens(ctx, w, 3, id, nil), a.deletes("/oauth2/" + id + below)
	}
}

func patchApplication(ctx context.Context, a *actor, w *way) ([]*credential, func() reply) {
	id, name := a.newApplication(ctx, consumer)
	if id == "" {
		return nil, nil
	}
	token, value := a.token(ctx, id, nil)
	if token == "" {
		return nil, nil
	}
	return []*credential{a.state(w.name, "application "+name, value, "X-Credential-Identifier", name)},
		a.patches("/oauth2/"+id, map[string]any{"client_id": name + "-new"})
}

// newConsumer makes one with an application.
func (a *actor) newConsumer(ctx context.Context) (name, app string) {
	name = a.name("consumer")
	if a.create(ctx, "/consumers", map[string]any{"username": name, "custom_id": name}).status == 0 {
		return "", ""
	}
	app, _ = a.newApplication(ctx, name)
	return name, app
}

func consumerWay(below string) func(context.Context, *actor, *way) ([]*credential, func() reply) {
	return func(ctx context.Context, a *actor, w *way) ([]*credential, func() reply) {
		name, app := a.newConsumer(ctx)
		if app == "" {
			return nil, nil
		}
		cs := a.tokens(ctx, w, 2, app, nil)
		if below == "" && cs != nil {
			if key := a.create(ctx, "/consumers/"+name+"/key-auth", map[string]any{}).text("key"); key != "" {
				cs = append(cs, a.key(w.name, "key of "+name, key))
			}
		}
		return cs, a.deletes("/consumers/" + name + below)
	}
}

func patchConsumer(ctx context.Context, a *actor, w *way) ([]*credential, func() reply) {
	name, app := a.newConsumer(ctx)
	if app == "" {
		return nil, nil
	}
	id, value := a.token(ctx, app, nil)
	if id == "" {
		return nil, nil
	}
	return []*credential{a.state(w.name, "custom id of "+name, value, "X-Consumer-Custom-Id", name)},
		a.patches("/consumers/"+name, map[string]any{"custom_id": name + "-new"})
}

func user(ctx context.Context, a *actor, w *way) ([]*credential, func() reply) {
	name := a.name("user")
	return a.tokens(ctx, w, 3, a.w.app, map[string]any{"authenticated_userid": name}), a.deletes("/oauth2_tokens?authenticated_userid=" + name)
}

func keyWay(remove bool) func(context.Context, *actor, *way) ([]*credential, func() reply) {
	return func(ctx context.Context, a *actor, w *way) ([]*credential, func() reply) {
		made := a.create(ctx, "/consumers/"+consumer+"/key-auth", map[string]any{})
		id := made.text("id")
		if id == "" {
			return nil, nil
		}
		cs := []*credential{a.key(w.name, "key "+id, made.text("key"))}
		if remove {
			return cs, a.deletes("/key-auths/" + id)
		}
		return cs, a.patches("/key-auths/"+id, map[string]any{"key": a.value()})
	}
}
