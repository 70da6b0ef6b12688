// The Temporal server and its UI, pinned with hashes in go.sum, for machines where the Temporal CLI
// cannot be downloaded but Go modules can. Built with `go build`, in this folder: the servers are modules' main packages,
// and `go install <package>@<version>` fails behind module proxies that answer a probe of a path that is no module with 403.
module durable-context/temporal

go 1.25.0

require (
	github.com/temporalio/ui-server/v2 v2.42.1
	go.temporal.io/server v1.29.1
)
