"""What a page of the next prompt says."""

import html
import re


def said(page: str) -> list[str]:
    """What each part of each message says, folded or not."""
    articles = re.findall(r"<article.*?</article>", page, re.DOTALL)
    found = (re.findall(r"<pre>(.*?)</pre>", one, re.DOTALL) for one in articles)
    return [html.unescape(re.sub(r"</?mark>", "", "".join(parts))) for parts in found]
