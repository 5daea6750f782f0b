"""A path of release 0.1, which tests that it exported import: it says what to do with them."""

raise ImportError(
    "there is no awaken.domain: if an earlier release of awaken has written this test, "
    "export it again"
)
