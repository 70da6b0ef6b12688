"""A part of a text shows no secret, wherever it is cut."""

from hypothesis import given
from hypothesis import strategies as st

from durable_context.quoting import quoted
from durable_context.redaction import redact

KEY = "\n".join("MIIEpAIBAAKCAQEA7bq" + "Qz9" * 15 for _ in range(60))
SECRETS = {
    "password: hunter2x99": "hunter2x99",
    "postgresql://app:s3cr3tpw@db/app": "s3cr3tpw",
    "api_key=abcd1234efgh5678": "abcd1234efgh5678",
    f"-----BEGIN RSA PRIVATE KEY-----\n{KEY}\n-----END RSA PRIVATE KEY-----": "Qz9Qz9Qz9",
}
words = st.text(alphabet="abc .,\n", max_size=300)


@st.composite
def cuts(draw: st.DrawFn) -> tuple[str, int, int]:
    said = draw(st.lists(st.sampled_from(sorted(SECRETS)), min_size=1, max_size=4))
    text = "".join(f"{draw(words)} {one} {draw(words)}" for one in said)
    start = draw(st.integers(0, len(text)))
    return text, start, draw(st.integers(start, len(text)))


@given(cuts())
def test_no_cut_shows_a_part_of_a_secret(cut: tuple[str, int, int]):
    text, start, end = cut
    shown = quoted(text, start, end)
    for secret in SECRETS.values():
        for size in range(6, len(secret) + 1):
            assert secret[-size:] not in shown
    assert shown in redact(text) or len(text) > 2_048


@given(words, st.data())
def test_a_text_without_secrets_is_cut_as_it_is(text: str, data: st.DataObject):
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    assert quoted(text, start, end) == text[start:end]


def test_the_whole_text_is_redacted():
    text = " and ".join(SECRETS)
    assert quoted(text, 0, len(text)) == redact(text)


def test_a_token_longer_than_what_is_looked_at_is_no_secret_told_in_part() -> None:
    token = "".join(chr(ord("a") + (7 * n) % 26) + str(n % 10) for n in range(1_500))
    text = f"I sent Bearer {token} zebra-77 was refused by the vault"
    start = text.index("zebra-77") - 100
    part = quoted(text, start, len(text))
    assert "zebra-77 was refused" in part
    assert token[-20:] not in part
