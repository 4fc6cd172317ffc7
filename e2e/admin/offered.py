"""What random requests of e2e/admin/schemathesis to the cloud API need: ids that
exist, and the check "offered".

Without ids, all below a portal or a control plane answers 404, and nothing of it
is tested. EXISTING is a JSON object: the keys are paths of the document up to a
variable, the values are what that stands for. It counts in most requests; the
others keep what the tool has made up. SPARE is the same for the deletion of what
such a path names, so that no request takes away what the next one is about.
"""

import json
import os

import schemathesis

EXISTING = json.loads(os.environ.get("EXISTING", "{}"))
SPARE = json.loads(os.environ.get("SPARE", "{}"))


def made_up(values: dict) -> bool:
    """Leaves one of four, always the same ones."""
    return sum(map(ord, json.dumps(values, sort_keys=True, default=str))) % 4 == 0


@schemathesis.hook
def map_case(context, case):
    path = case.operation.path
    deletes = case.operation.method.upper() == "DELETE"
    if not case.path_parameters or (made_up(case.path_parameters) and not deletes):
        return case
    for known in sorted((k for k in EXISTING if path.startswith(k)), key=len):
        spare = deletes and path == known
        name = known[known.rindex("{") + 1 : known.index("}", known.rindex("{"))]
        case.path_parameters[name] = (SPARE if spare else EXISTING)[known]
    return case


@schemathesis.check
def offered(ctx, response, case):
    """No member that the document offers in a body is refused as unknown."""
    if case.meta is None or not case.meta.generation.mode.is_positive or response.status_code != 400:
        return
    unknown = [p["field"] for p in response.json().get("invalid_parameters", []) if p.get("rule") == "unknown_property"]
    assert not unknown, f"the document offers {unknown}, and the API refuses them as unknown"
