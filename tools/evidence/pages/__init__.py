"""Pages: what a Markdown page asks of the evidence, and how it is shown.

`scan`, `front`, `library` and `bindings` know neither Markdown nor MkDocs; the
command `evidence check` and the site's build use them alike, so both fail on
the same things. `extension` and `plugin` are the two hosts.
"""
