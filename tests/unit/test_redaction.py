"""What counts as a secret, what does not, and that no text makes redaction slow or unstable."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from durable_context.redaction import redact

KEY = "abcDEF1234567890abcDEF1234567890abcd"

SECRETS = {
    "openai": (f"use sk-proj-{KEY} here", f"sk-proj-{KEY}"),
    "anthropic": ("sk-ant-api03-AbCdEf0123456789AbCdEf01-xyzAA", "AbCdEf0123456789"),
    "openrouter": ("key sk-or-v1-" + "0123456789abcdef" * 4, "0123456789abcdef"),
    "github": (f"git clone with ghp_{KEY}", KEY),
    "github fine-grained": (f"github_pat_11ABC_{KEY}", KEY),
    "gitlab": (f"glpat-{KEY}", KEY),
    "aws id": ("AKIAIOSFODNN7EXAMPLE", "IOSFODNN7"),
    "aws secret": ("aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCY", "wJalrXUtnFEMI"),
    "google": ("AIza" + "Sy0123456789abcdefghijklmnopqrstuvw"[:35], "0123456789abc"),
    "slack": ("xoxb-123456789012-abcdefghijkl", "abcdefghijkl"),
    "slack hook": ("https://hooks.slack.com/services/T00/B00/XXXXXXXXXXXX", "XXXXXXXXXXXX"),
    "stripe": (f"sk_live_{KEY}", KEY),
    "jwt": ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3In0.SflKxwRJSMeKKF2QT4fw", "SflKxwRJ"),
    "pem": (
        "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nMIIEow\n"
        "-----END RSA PRIVATE KEY-----",
        "MIIEow",
    ),
    "pem cut short": (f"-----BEGIN PRIVATE KEY-----\n{KEY}\n{KEY}", KEY),
    "bearer": ("Authorization: Bearer abc123def456", "abc123def456"),
    "basic": ('{"Authorization": "Basic dXNlcjpwYXNzd29yZA=="}', "dXNlcjpwYXNz"),
    "assignment": ("password=hunter2", "hunter2"),
    "letters only": ("DB_PASSWORD=correcthorse", "correcthorse"),
    "json": ('{"password": "hunter"}', "hunter"),
    "escaped json": ('"{\\"password\\": \\"hunter2\\"}"', "hunter2"),
    "single quotes": ("{'token': 'abcdefgh'}", "abcdefgh"),
    "yaml": ("api_key: 8f14e45fceea167a", "8f14e45fceea167a"),
    "camel case": ('accessToken: "abcdefghijk"', "abcdefghijk"),
    "with a comma": ("password: p@ss,word1", "word1"),
    "query string": ("https://x.example/?token=abcdef123&page=1", "abcdef123"),
    "option": ("mysql --password s3cret -h db", "s3cret"),
    "said": ("my password is Tr0ub4dor&3.", "Tr0ub4dor"),
    "connection string": ("postgres://app:s3cr3t@db.example:5432/app", "s3cr3t"),
    "redis": ("redis://:p4ss@cache.example:6379", "p4ss"),
    "visa": ("card 4111 1111 1111 1111 please", "4111"),
    "visa with hyphens": ("4111-1111-1111-1111", "4111"),
    "amex": ("378282246310005", "378282246310005"),
}

ORDINARY = [
    "commit 3f786850e387550fdab836ed7e6dc881de23001b",
    "550e8400-e29b-41d4-a716-446655440000",
    "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "order #W1234567, reservation 4WQ150, credit_card_7815826, gift_card_8190333",
    "order 4111111111111112 and order 1234567890123456",
    "max_tokens=400, token_count: 17 and tokens: 1200",
    '{"next_page_token": "CAUQAA12345678"}',
    '{"token": 1234567890}',
    "token = get_token()",
    "self.token = token",
    "password: required",
    'password = os.environ["DB_PASSWORD"]',
    "connect(password=password, user=user)",
    "def login(user: str, password: str = None) -> Token:",
    "the password is required, the password was changed yesterday",
    "a bearer of bad news",
    "sk-toggleable__content-arrow-label-long-2",
    "see http://localhost:8080/path@x or mail mia@example.com",
    "1716239022000 at 2024-05-15T14:00:00Z, $1,234.56, +1 555 123 4567",
    "tokenizer=gpt2model",
    "secret: true",
    "-----BEGIN CERTIFICATE-----\nMIIEow\n-----END CERTIFICATE-----",
]


@pytest.mark.parametrize(("text", "secret"), SECRETS.values(), ids=SECRETS)
def test_a_secret_is_replaced(text: str, secret: str) -> None:
    redacted = redact(text)
    assert secret not in redacted
    assert "[redacted: " in redacted


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    assert redact(text) == text


def test_what_surrounds_a_secret_stays() -> None:
    text = "connect to postgres://app:s3cr3t@db.example:5432/app with timeout=5"
    kept = "connect to postgres://app:[redacted: password]@db.example:5432/app with timeout=5"
    assert redact(text) == kept


FRAGMENTS = st.sampled_from(
    ["password", "token", "secret", "=", ":", " ", '"', "'", "\\", "\n", ",", "sk-", "a1", "://"]
    + ["-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----", "eyJ", ".", "@", "bearer "]
    + ["4111", "-", "1111 1111 1111", "[redacted: ", "]", "hunter2", " is ", "--", "ghp_", KEY]
    + [text for text, _ in SECRETS.values()]
)


@given(st.lists(st.one_of(FRAGMENTS, st.text(max_size=8)), max_size=24).map("".join))
def test_redacting_twice_changes_nothing_more(text: str) -> None:
    redacted = redact(text)
    assert redact(redacted) == redacted


@pytest.mark.parametrize(
    "unit",
    [
        "a",
        " ",
        "-",
        "4",
        "4111 ",
        "password:",
        'password:"',
        "password is ",
        "://a:b",
        "eyJ",
        "sk-a1",
        "-----BEGIN PRIVATE KEY----- x ",
        "token=a,",
        "authorization:",
        " --token ",
        "SG.aaaaaaaaaaaaaaaaa",
    ],
)
def test_a_hostile_megabyte_takes_linear_time(unit: str) -> None:
    text = (unit * (1_000_000 // len(unit) + 1))[:1_000_000]
    started = time.perf_counter()
    redact(text)
    assert time.perf_counter() - started < 2  # quadratic would be hours; measured under 0.25 s
