// Temporal's web UI, pinned with hashes in go.sum. gomarkdown is held at a version that every module proxy we know serves;
// the UI uses it to render one notice.
module durable-context/temporal-ui

go 1.26.5

require github.com/temporalio/ui-server/v2 v2.55.0

require gopkg.in/validator.v2 v2.0.1

replace github.com/gomarkdown/markdown => github.com/gomarkdown/markdown v0.0.0-20240328165702-4d01890c35c0
