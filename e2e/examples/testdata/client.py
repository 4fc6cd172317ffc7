"""Authlib as a client of a gateway. Prints one JSON object with what it saw."""
import json, os, sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "..", "docs", "examples", "login"))
import browser
from authlib.common.security import generate_token
from authlib.integrations.base_client.errors import OAuthError
from authlib.integrations.requests_client import OAuth2Session

env = os.environ


def client(style="client_secret_basic", **more):
    c = OAuth2Session(
        env["CLIENT_ID"], env["CLIENT_SECRET"], token_endpoint_auth_method=style, scope="email phone", token_endpoint=env["TOKEN_URL"],
        default_timeout=10, **more)
    c.trust_env, c.verify = False, env["CA"]
    return c


def call(c, token=None):
    """A call with a token; by default the one that the client holds."""
    if token:
        return c.get(env["CALL_URL"], withhold_token=True, headers={"Authorization": "Bearer " + token})
    return c.get(env["CALL_URL"])


def told(answer):
    """What the upstream was told."""
    if answer.status_code != 200:
        return {"status": answer.status_code}
    headers = {k.lower(): v[0] for k, v in answer.json()["headers"].items()}
    return {"status": 200, "client": headers.get("x-credential-identifier"), "user": headers.get("x-authenticated-userid")}


def authorize(c):
    """The code flow with PKCE, with the user's part of it; whether the state came back."""
    verifier = generate_token(48)
    link, state = c.create_authorization_url(env["AUTHORIZE_URL"], code_verifier=verifier)
    back = browser.browse(link, "ada", "correct horse")
    c.fetch_token(env["TOKEN_URL"], authorization_response=back, code_verifier=verifier, state=state)
    return "state=" + state in back


def credentials(style):
    with client(style) as c:
        c.fetch_token(env["TOKEN_URL"], grant_type="client_credentials")
        return told(call(c))


def code():
    with client(redirect_uri=env["REDIRECT_URI"], code_challenge_method="S256") as c:
        seen = {"state": authorize(c), **told(call(c))}
        old = c.token["access_token"]
        c.refresh_token(env["TOKEN_URL"], refresh_token=c.token["refresh_token"])
        return {**seen, "renewed": call(c).status_code, "old": call(c, old).status_code}


def strict():
    with client(redirect_uri=env["REDIRECT_URI"], code_challenge_method="S256") as c:
        authorize(c)
        access, refresh = c.token["access_token"], c.token["refresh_token"]
        introspect = lambda token: c.introspect_token(env["INTROSPECT_URL"], token=token).json()
        known = introspect(access)
        seen = {"before": {k: known.get(k) for k in ("active", "scope", "client_id", "sub", "token_type")}, "status": call(c).status_code}
        seen["revoked"] = c.revoke_token(env["REVOKE_URL"], token=refresh, token_type_hint="refresh_token").status_code
        seen.update(after=introspect(access), then=call(c, access).status_code, unknown=introspect("never-issued"))
        try:
            c.refresh_token(env["TOKEN_URL"], refresh_token=refresh)
            seen["refreshed"] = "yes"
        except OAuthError as refused:
            seen["refreshed"] = refused.error
        return seen


what = sys.argv[1]
print(json.dumps(credentials(what.removeprefix("credentials-")) if what.startswith("credentials-") else {"code": code, "strict": strict}[what]()))
