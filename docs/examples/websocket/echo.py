"""The two ends of a WebSocket through the gateway.

  echo.py serve ADDRESS PORT           sends every message back
  echo.py call URL CA MESSAGE          sends one; a bearer token comes from the environment variable TOKEN. Only wss needs a CA

The client prints what comes back, or "refused: STATUS". Needs the Python package websockets.
"""
import os, ssl, sys
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect
from websockets.sync.server import serve


def echo(connection):
    for message in connection:
        connection.send(message)


def call(url, ca, message):
    token = os.environ.get("TOKEN")
    headers = {"Authorization": "Bearer " + token} if token else {}
    trust = ssl.create_default_context(cafile=ca) if url.startswith("wss:") else None
    try:
        with connect(url, ssl=trust, additional_headers=headers, proxy=None, open_timeout=10) as connection:
            connection.send(message)
            print(connection.recv(timeout=10))
    except InvalidStatus as refused:
        print("refused:", refused.response.status_code)


if sys.argv[1:2] == ["serve"]:
    with serve(echo, sys.argv[2], int(sys.argv[3])) as server:
        server.serve_forever()
elif sys.argv[1:2] == ["call"]:
    call(*sys.argv[2:5])
else:
    sys.exit(__doc__)
