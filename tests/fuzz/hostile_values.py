"""Numbers and words that readers stumble over."""

from typing import Any

NUMBERS = (
    0, -1, 1, 2**31, 2**53, 2**63, 2**64, -(2**63), 10**9, 10**30, int("9" * 400), 0.0, -0.0, 1e-320, 1e38, 1e308,
    -1e308, float("nan"), float("inf"), float("-inf"),
)  # fmt: skip
TEXTS = (
    "", " ", "\0", "a\0b", "\ud800", "\u202e", "\x1b[2J\x1b[31m", "../../../etc/passwd", "/", "/dev/zero",
    "/dev/stdin", "-", "--help", "$HOME", "%s%n", "{0}", "{{7*7}}", "<script>alert(1)</script>", "]]>", "'; --", "nan",
    "None", "null", "true", "1e999", "9" * 5000, "a" * 100_000, "é" * 300, "CON", ".", "..", "~", "file:///etc/passwd",
    "http://127.0.0.1:1/", "_target_", "$import os", "package.module:function", "os:system", "folder:/dev", "[red]",
    "[/]", "\r\n", "\t", "\ufeff",
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    *NUMBERS, *TEXTS, None, True, False, [], {}, [[]], {"": None}, [None] * 1000, {"a": {"b": {}}},
)  # fmt: skip
WORDS = tuple(
    word.encode(errors="surrogatepass")
    for word in (*TEXTS, "[" * 5000, "{" * 5000, '{"a":' * 3000, "= 1\n", "'''", "#")
)
