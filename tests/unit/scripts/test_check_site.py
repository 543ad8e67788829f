"""The checks of the documentation site: a link that leads nowhere and a file of another host are found."""

from __future__ import annotations

from pathlib import Path

from scripts.check_site import problems
from scripts.site_hooks import with_repository


def test_links_beside_the_documents_lead_to_the_repository() -> None:
    text = "[a](../helm/x#y) [b](alerts.md#z) [c](examples/web.yml) [d](https://example.com/../x)"
    assert with_repository(text, "https://r/blob/main") == (
        "[a](https://r/blob/main/helm/x#y) [b](alerts.md#z) [c](https://r/blob/main/docs/examples/web.yml)"
        " [d](https://example.com/../x)"
    )


def test_what_leads_nowhere_or_to_others_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<h2 id="here"></h2><a href="b.html#there"></a><a href="c.html"></a><a href="#here"></a>'
        '<a href="https://example.com"></a><script src="https://cdn.example.com/x.js"></script><img src="no.png">'
    )
    (tmp_path / "b.html").write_text('<h2 id="other"></h2><a href="a.html#here"></a>')
    assert list(problems(tmp_path)) == [
        "a.html loads https://cdn.example.com/x.js of another host",
        "a.html links to b.html#there: no such place on that page",
        "a.html links to c.html, which is not there",
        "a.html links to no.png, which is not there",
    ]
