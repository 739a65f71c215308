// Package services holds the services of YDB whose calls have one request: paths, coordination nodes, rate limiters and
// operations. They check requests and turn them into commands and reads, which package calls executes.
package services
