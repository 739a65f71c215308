package wire

import (
	"bytes"
	"math/rand/v2"
	"sync"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/scheme/outcome"
)

// TestSharedIsTheSame compares answers that share data with those that have copies: clients decode the same,
// and of long data there is no copy.
func TestSharedIsTheSame(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 12))
	lengths := []int{0, 1, sharedBytes - 1, sharedBytes, 3 * sharedBytes}
	data := func() []byte {
		b := make([]byte, lengths[random.IntN(len(lengths))])
		for i := range b {
			b[i] = byte(random.Uint32())
		}
		return b
	}
	links := func() coordination.Links {
		list := make([]coordination.LinkDescription, random.IntN(600))
		for i := range list {
			list[i] = coordination.LinkDescription{Order: coordination.OrderID(random.Uint64()),
				Session: coordination.SessionID(i), TimeoutMillis: random.Uint64(),
				Count: uint64(random.IntN(3)), Data: data()}
		}
		return coordination.LinksOf(list)
	}
	for range 100 {
		r := coordination.Reply{Kind: coordination.ReplyResult, Request: coordination.RequestDescribe,
			ReqID: random.Uint64(), WatchAdded: random.IntN(2) == 0,
			Description: &coordination.SemaphoreDescription{Name: "name", Data: data(), Count: 3,
				Limit: random.Uint64(), Ephemeral: true, Owners: links(),
				Waiters: links()}}
		if random.IntN(2) == 0 {
			r.Refusal = &coordination.Refusal{Status: outcome.Unavailable, Text: "text"}
		}
		large, err := ToClientShared(&r)
		if err != nil {
			t.Fatal(err)
		}
		var got serverMessage
		if err := proto.Unmarshal(bytes.Join(large.Pieces(), nil), &got); err != nil {
			t.Fatal(err)
		}
		if want := ToClient(&r); !proto.Equal(&got, want) {
			t.Fatalf("got %v, want %v", &got, want)
		}
		shared := 0
		share := func(b []byte) {
			if len(b) >= sharedBytes {
				shared += len(b)
			}
		}
		share(r.Description.Data)
		for _, list := range []coordination.Links{r.Description.Owners, r.Description.Waiters} {
			for l := range list.All() {
				share(l.Data)
			}
		}
		if length := len(bytes.Join(large.Pieces(), nil)); large.copied != length-shared {
			t.Errorf("%d of %d bytes are the message's own, want %d", large.copied, length, length-shared)
		}
		large.Gone() // the next one uses its room
		if own := Own(r.Description); r.Refusal == nil && large.copied > own {
			t.Errorf("%d bytes are the message's own, more than %d", large.copied, own)
		}
	}
}

// TestRoomsAreNotShared has clients list all the time who let go of one list before they have the next: what
// one of them reads is never written for another one.
func TestRoomsAreNotShared(t *testing.T) {
	var clients sync.WaitGroup
	for client := range 8 {
		clients.Go(func() {
			list := make([]coordination.LinkDescription, 500)
			for i := range list {
				list[i] = coordination.LinkDescription{Session: coordination.SessionID(client*1000 + i + 1),
					Data: bytes.Repeat([]byte{byte(client)}, 64)}
			}
			r := coordination.Reply{Kind: coordination.ReplyResult, Request: coordination.RequestDescribe,
				Description: &coordination.SemaphoreDescription{Owners: coordination.LinksOf(list)}}
			want := ToClient(&r)
			for range 50 {
				large, err := ToClientShared(&r)
				if err != nil {
					t.Error(err)
					return
				}
				var got serverMessage
				if err := proto.Unmarshal(bytes.Join(large.Pieces(), nil), &got); err != nil ||
					!proto.Equal(&got, want) {
					t.Errorf("client %d got what is not its own: %v", client, err)
					return
				}
				large.Gone()
			}
		})
	}
	clients.Wait()
}
