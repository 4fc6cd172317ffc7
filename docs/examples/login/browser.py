"""What a person does in a browser: follows a link to the login application, logs in and agrees.

  browser.py URL NAME PASSWORD [allow|deny]

Prints where the application's answer leads, which is the client's own address.
"""
import html.parser, http.cookiejar, sys, urllib.error, urllib.parse, urllib.request


class Form(html.parser.HTMLParser):
    """The first form of a page: its action and its fields."""

    def __init__(self, page):
        super().__init__()
        self.action, self.fields, self.inside = None, {}, False
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        a = dict(attributes)
        if tag == "form" and self.action is None:
            self.action, self.inside = a["action"], True
        elif tag == "input" and self.inside:
            self.fields[a["name"]] = a.get("value", "")

    def handle_endtag(self, tag):
        self.inside = self.inside and tag != "form"


class Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_):
        return None


def browse(url, name, password, decision="allow"):
    jar = urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
    opener = urllib.request.build_opener(jar, Stay, urllib.request.ProxyHandler({}))
    own = urllib.parse.urlsplit(url).netloc
    form = None
    for _ in range(10):
        try:
            with opener.open(url, form, timeout=10) as answer:
                page = Form(answer.read().decode())
        except urllib.error.HTTPError as e:
            if e.code != 303:
                raise SystemExit("%s answered %d" % (url, e.code)) from e
            url, form = urllib.parse.urljoin(url, e.headers["Location"]), None
            if urllib.parse.urlsplit(url).netloc != own:
                return url
            continue
        if page.action is None:
            raise SystemExit("%s shows no form" % url)
        filled = {"username": name, "password": password} if "password" in page.fields else {"decision": decision}
        url, form = urllib.parse.urljoin(url, page.action), urllib.parse.urlencode({**page.fields, **filled}).encode()
    raise SystemExit("the application leads nowhere")


if __name__ == "__main__":
    if len(sys.argv) not in (4, 5):
        sys.exit(__doc__)
    print(browse(*sys.argv[1:]))
