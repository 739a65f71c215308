package server

import (
	"slices"
	"strings"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Operations"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/coordd/coordd/scheme/outcome"
	"github.com/coordd/coordd/server/calls"
)

// operationMethods are the calls of YDB that this server does not have and that are answered by an Operation
// in field 1. TestUnknownMethodsFollowDescriptors compares them with YDB's own descriptors, which are far
// larger.
var operationMethods = map[string][]string{
	"Ydb.Auth.V1.AuthService": {"Login"},
	"Ydb.Cms.V1.CmsService": {"CreateDatabase", "GetDatabaseStatus", "AlterDatabase", "ListDatabases",
		"RemoveDatabase",
		"DescribeDatabaseOptions"},
	"Ydb.Export.V1.ExportService":                           {"ExportToYt", "ExportToS3", "ExportToFs"},
	"Ydb.FederationDiscovery.V1.FederationDiscoveryService": {"ListFederationDatabases"},
	"Ydb.Import.V1.ImportService": {"ImportFromS3", "ImportFromFs", "ListObjectsInS3Export",
		"ListObjectsInFsExport",
		"ImportData"},
	"Ydb.Scripting.V1.ScriptingService": {"ExecuteYql", "ExplainYql"},
	"Ydb.Table.V1.TableService": {"CreateSession", "DeleteSession", "KeepAlive", "CreateTable", "DropTable",
		"AlterTable",
		"CopyTable", "CopyTables", "RenameTables", "DescribeTable", "ExplainDataQuery", "PrepareDataQuery",
		"ExecuteDataQuery", "ExecuteSchemeQuery", "BeginTransaction", "CommitTransaction",
		"RollbackTransaction", "DescribeTableOptions", "BulkUpsert", "DescribeExternalDataSource",
		"DescribeExternalTable", "DescribeSystemView"},
	"Ydb.Topic.V1.TopicService": {"CommitOffset", "UpdateOffsetsInTransaction", "CreateTopic",
		"DescribeTopic",
		"DescribeConsumer", "AlterTopic", "DropTopic"},
}

// answerUnknown answers a call that no service here has, after a while: with an Operation of status
// UNSUPPORTED where the client expects an Operation, because SDKs take any gRPC error for a broken endpoint
// and avoid it (surface.md §0); otherwise with gRPC UNIMPLEMENTED.
func (s *Server) answerUnknown(_ any, rpc grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(rpc)
	service, name, _ := strings.Cut(strings.TrimPrefix(method, "/"), "/")
	if !slices.Contains(operationMethods[service], name) {
		s.held.hold(rpc.Context())
		return status.Errorf(codes.Unimplemented, "unknown method %s", method)
	}
	if err := rpc.RecvMsg(new(emptypb.Empty)); err != nil {
		return err
	}
	op, err := calls.Operation(outcome.Because(outcome.Unsupported, service+" is not served here"), nil)
	if err != nil {
		return err
	}
	s.held.hold(rpc.Context())
	// Only field 1 of the answer is set, and it has the same type everywhere.
	return rpc.SendMsg(&Ydb_Operations.GetOperationResponse{Operation: op})
}
