// Package monitor shows to Prometheus how a server does, and to developers what its process is at. It is the
// only place that knows Prometheus' library: what the server counts on its hot paths are plain atomics
// (internal/histogram), which are read when somebody asks.
//
// Every metric is in the table of metrics.go; docs/monitoring/metrics.md is made from it.
package monitor
