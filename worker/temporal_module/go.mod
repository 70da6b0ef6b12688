// The Temporal server, pinned with hashes in go.sum, for machines that reach the Go module proxy but not
// Temporal's download. Built with `go build` in this folder, since `go install <package>@<version>` asks the proxy for
// paths that are no modules, which some proxies refuse, and would leave the dependencies' versions to the proxy.
module durable-context/temporal

go 1.26.4

require (
	github.com/aws/aws-sdk-go-v2/service/lambda v1.114.1
	go.temporal.io/server v1.31.2
)
