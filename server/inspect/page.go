package inspect

import (
	"context"
	"encoding/base64"
	"encoding/binary"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/scheme"
	"github.com/coordd/coordd/scheme/outcome"
	"github.com/coordd/coordd/server/calls"
	"github.com/coordd/coordd/server/group"
)

const (
	// maxPageRows is how many rows a page has at most, and by default.
	maxPageRows = group.MaxInspectedRows
	// maxPageTurns is how many turns a page takes at most: one that finds little is cut short and goes on
	// behind its token.
	maxPageTurns = 64
)

// upToDate is page, once this server has everything that was committed before the call.
func (s *Service) upToDate(ctx context.Context, q *coordination.Inspection, token string, size uint32,
	add func(*group.Inspected) int) (next string, err error) {
	if _, err := placeOf(token); err != nil { // before anybody waits for it
		return "", err
	}
	if err := s.Group.CatchUp(ctx); err != nil {
		return "", calls.GRPCStatus(ctx, outcome.Outcome{}, err)
	}
	return s.page(ctx, q, token, size, add)
}

// page collects a page of what this server has applied, turn by turn. add takes what a turn found and returns
// how many rows the page has then. It returns the token of the next page, empty if there is none.
func (s *Service) page(ctx context.Context, q *coordination.Inspection, token string, size uint32,
	add func(*group.Inspected) int) (next string, err error) {
	at, err := placeOf(token)
	if err != nil {
		return "", err
	}
	most := maxPageRows
	if size != 0 {
		most = int(min(max(size, coordination.MinInspectedRows), maxPageRows))
	}
	for turns, rows := 0, 0; turns < maxPageTurns && most-rows >= coordination.MinInspectedRows; turns++ {
		found, err := s.Group.Inspect(ctx, q, at, most-rows)
		switch {
		case err != nil:
			return "", calls.GRPCStatus(ctx, outcome.Outcome{}, err)
		case found.Missing:
			return "", errMissing
		}
		rows = add(&found)
		if found.Done {
			return "", nil
		}
		at = found.Next
	}
	return tokenOf(at), nil
}

// tokenVersion begins every token: one of another version means nothing.
const tokenVersion = 1

var errToken = status.Error(codes.InvalidArgument,
	"The page token is none that a server of this version has given")

func tokenOf(at coordination.InspectionPlace) string {
	token := []byte{tokenVersion}
	for _, n := range []uint64{uint64(at.Entry), uint64(at.Node), at.ID, uint64(at.Links), uint64(at.Order),
		at.Near} {
		token = binary.AppendUvarint(token, n)
	}
	return base64.RawURLEncoding.EncodeToString(token)
}

func placeOf(token string) (coordination.InspectionPlace, error) {
	if token == "" {
		return coordination.InspectionPlace{}, nil
	}
	data, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || len(data) == 0 || data[0] != tokenVersion {
		return coordination.InspectionPlace{}, errToken
	}
	data = data[1:]
	var numbers [6]uint64
	for i := range numbers {
		n, length := binary.Uvarint(data)
		if length <= 0 {
			return coordination.InspectionPlace{}, errToken
		}
		numbers[i], data = n, data[length:]
	}
	if len(data) > 0 || numbers[3] > uint64(coordination.LinksOfSession) {
		return coordination.InspectionPlace{}, errToken
	}
	return coordination.InspectionPlace{Entry: scheme.EntryID(numbers[0]),
		Node: coordination.NodeID(numbers[1]), ID: numbers[2], Links: coordination.InspectedLinks(numbers[3]),
		Order: coordination.OrderID(numbers[4]), Near: numbers[5]}, nil
}
