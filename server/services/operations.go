package services

import (
	"context"
	"net/url"
	"strconv"
	"strings"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Operation_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Operations"

	"github.com/coordd/coordd/scheme/outcome"
	"github.com/coordd/coordd/server/calls"
	"github.com/coordd/coordd/server/wire"
)

// Operations serves Ydb.Operation.V1.OperationService (surface.md §5). Every answer of this server is
// final, so no operation outlives its call and there is never one to find.
type Operations struct {
	Ydb_Operation_V1.UnimplementedOperationServiceServer
}

// GetOperation knows no operation: NOT_FOUND, or BAD_REQUEST for an id that no operation can have.
func (Operations) GetOperation(_ context.Context,
	r *Ydb_Operations.GetOperationRequest) (*Ydb_Operations.GetOperationResponse, error) {
	op, err := calls.Operation(noOperation(r.GetId()), nil)
	op.Id = r.GetId()
	return &Ydb_Operations.GetOperationResponse{Operation: op}, err
}

// CancelOperation answers as GetOperation does.
func (Operations) CancelOperation(_ context.Context,
	r *Ydb_Operations.CancelOperationRequest) (*Ydb_Operations.CancelOperationResponse, error) {
	answer := noOperation(r.GetId())
	return &Ydb_Operations.CancelOperationResponse{Status: Ydb.StatusIds_StatusCode(answer.Status),
		Issues: wire.Issues(answer.Issues)}, nil
}

// ForgetOperation answers as GetOperation does.
func (Operations) ForgetOperation(_ context.Context,
	r *Ydb_Operations.ForgetOperationRequest) (*Ydb_Operations.ForgetOperationResponse, error) {
	answer := noOperation(r.GetId())
	return &Ydb_Operations.ForgetOperationResponse{Status: Ydb.StatusIds_StatusCode(answer.Status),
		Issues: wire.Issues(answer.Issues)}, nil
}

// ListOperations lists none, of whatever kind.
func (Operations) ListOperations(context.Context,
	*Ydb_Operations.ListOperationsRequest) (*Ydb_Operations.ListOperationsResponse, error) {
	return &Ydb_Operations.ListOperationsResponse{Status: Ydb.StatusIds_SUCCESS}, nil
}

func noOperation(id string) outcome.Outcome {
	switch {
	case id == "":
		return outcome.Because(outcome.BadRequest, "Operation id is empty")
	case !isOperationID(id):
		return outcome.Because(outcome.BadRequest, "Unable to parse operation id")
	}
	return outcome.Because(outcome.NotFound, "Operation not found")
}

// isOperationID reports whether an id has the form of YDB's, such as "ydb://operation/1?txid=42&sstid=7": a number for
// its kind, and values by name. The ids of schema operations name both a txid and an sstid, which are numbers.
func isOperationID(id string) bool {
	u, err := url.Parse(id)
	if err != nil || u.Scheme != "ydb" || u.Host == "" {
		return false
	}
	kind, err := strconv.Atoi(strings.TrimPrefix(u.Path, "/"))
	values, malformed := url.ParseQuery(u.RawQuery)
	if err != nil || kind < 0 || malformed != nil || len(values) == 0 {
		return false
	}
	if kind != schemaOperation {
		return true
	}
	for _, name := range []string{"txid", "sstid"} {
		if _, err := strconv.ParseUint(values.Get(name), 10, 64); err != nil {
			return false
		}
	}
	return true
}

// schemaOperation is the kind of an operation that changes the schema, such as one that makes a table.
const schemaOperation = 1
