package console

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/coordd/coordd/internal/lograte"
	"github.com/coordd/coordd/server/adminpb"
)

const (
	maxRequestBytes = 64 << 10
	maxReasonBytes  = 128 // as the log has it
	maxAnswerBytes  = 4 << 20
	// writePatience bounds the time in which a client reads an answer.
	writePatience = 10 * time.Second

	versionHeader = "X-Coordd-Version"
	haveHeader    = "X-Coordd-Have"
)

// Methods are the methods that the console may call, and whether they change something.
var Methods = map[string]bool{
	adminpb.Inspect_List_FullMethodName:            false,
	adminpb.Inspect_Versions_FullMethodName:        false,
	adminpb.Inspect_Children_FullMethodName:        false,
	adminpb.Inspect_Rights_FullMethodName:          false,
	adminpb.Inspect_UpdateData_FullMethodName:      true,
	"/coordd.admin.v1.Inspect/Events":              false,
	adminpb.Inspect_Slow_FullMethodName:            false,
	adminpb.Inspect_EndSession_FullMethodName:      true,
	adminpb.Inspect_DeleteSemaphore_FullMethodName: true,
	adminpb.Cluster_Status_FullMethodName:          false,
	adminpb.Cluster_TransferLeader_FullMethodName:  true,
	adminpb.Console_Servers_FullMethodName:         false,
}

// Bridge calls methods of gRPC.
type Bridge struct {
	Methods     map[string]Method // by their full names
	Interceptor grpc.UnaryServerInterceptor
	// Acts lets callers change something, as far as their rights go.
	Acts bool
}

// Method is a method of gRPC with one request.
type Method struct {
	Service any
	Handler grpc.MethodHandler
}

var (
	errUnknownMethod = status.Error(codes.Unimplemented, "The console has no such method")
	errReadOnly      = status.Error(codes.PermissionDenied,
		"The console of this server changes nothing: start the server with --console=write")
	errReason = status.Error(codes.InvalidArgument, fmt.Sprintf(
		"reason: want a text of at most %d bytes that can be printed, which goes into the log", maxReasonBytes))
	errLarge = status.Error(codes.ResourceExhausted, fmt.Sprintf(
		"The answer has more than %d bytes: ask for less of it", maxAnswerBytes))
)

// call calls a method as gRPC does: the same handler behind the same interceptors, so with the same rights and limits
// and the same lines in the log. Two answers of one version are the same.
func (b *Bridge) call(ctx context.Context, name string, body []byte) (answer proto.Message, version string,
	err error) {
	changes, known := Methods[name]
	method, served := b.Methods[name]
	switch {
	case !known || !served:
		return nil, "", errUnknownMethod
	case changes && !b.Acts:
		return nil, "", errReadOnly
	}
	got, err := method.Handler(method.Service, ctx, func(into any) error {
		if err := protojson.Unmarshal(body, into.(proto.Message)); err != nil {
			return status.Error(codes.InvalidArgument, err.Error())
		}
		why, is := into.(interface{ GetReason() string })
		if changes && (!is || !isReason(why.GetReason())) {
			return errReason
		}
		return nil
	}, b.Interceptor)
	if err != nil {
		return nil, "", err
	}
	answer = got.(proto.Message)
	if proto.Size(answer) > maxAnswerBytes {
		return nil, "", errLarge
	}
	version, err = versionOf(answer)
	return answer, version, err
}

// isReason reports whether a text is a reason, and is in the log as it is.
func isReason(text string) bool {
	return strings.TrimSpace(text) != "" && lograte.Printable(text, maxReasonBytes) == text
}

// versionOf returns a hash of an answer that its handler has made for this call, without the time at which it did.
func versionOf(answer proto.Message) (string, error) {
	fields := answer.ProtoReflect()
	if stamp := fields.Descriptor().Fields().ByName("time_millis"); stamp != nil {
		at := fields.Get(stamp)
		fields.Clear(stamp)
		defer fields.Set(stamp, at)
	}
	encoded, err := proto.MarshalOptions{Deterministic: true}.Marshal(answer)
	sum := sha256.Sum256(encoded)
	return hex.EncodeToString(sum[:8]), err
}

// from returns the context of a request with the address that it comes from. No header about that is believed.
func from(r *http.Request) context.Context {
	address, _ := netip.ParseAddrPort(r.RemoteAddr)
	return peer.NewContext(r.Context(), &peer.Peer{Addr: net.TCPAddrFromAddrPort(address)})
}

// read returns the body of a request, {} in the place of an empty one.
func read(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequestBytes))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, errTooLarge
	case err != nil:
		return nil, status.Error(codes.Canceled, "The request did not come whole")
	case len(body) == 0:
		return []byte("{}"), nil
	}
	return body, nil
}

// errTooLarge is the refusal of a request; it has a status of its own in HTTP.
var errTooLarge = status.Error(codes.OutOfRange, fmt.Sprintf("The request has more than %d bytes", maxRequestBytes))

// httpStatus returns the status of HTTP that stands for a code of gRPC.
var httpStatus = map[codes.Code]int{
	codes.InvalidArgument: http.StatusBadRequest, codes.Unauthenticated: http.StatusUnauthorized,
	codes.PermissionDenied: http.StatusForbidden, codes.NotFound: http.StatusNotFound,
	codes.Unimplemented: http.StatusNotFound, codes.AlreadyExists: http.StatusConflict,
	codes.Aborted: http.StatusConflict, codes.FailedPrecondition: http.StatusPreconditionFailed,
	codes.OutOfRange: http.StatusRequestEntityTooLarge, codes.ResourceExhausted: http.StatusTooManyRequests,
	codes.Unavailable: http.StatusServiceUnavailable, codes.DeadlineExceeded: http.StatusGatewayTimeout,
}

func refuse(w http.ResponseWriter, err error) {
	s := status.Convert(err)
	code, known := httpStatus[s.Code()]
	if !known {
		code = http.StatusInternalServerError
	}
	answer(w, code, map[string]string{"code": s.Code().String(), "message": s.Message()})
}

func answer(w http.ResponseWriter, code int, value any) {
	body, _ := json.Marshal(value) // of strings
	write(w, code, body)
}

// write writes an answer to a client that has writePatience to read it.
func write(w http.ResponseWriter, code int, body []byte) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writePatience))
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(body) // a client that is gone does not need it
}
