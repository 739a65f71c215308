package deploy_test

import (
	"net"
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// serveNames answers questions for names as the DNS of Kubernetes does: lookup returns the addresses of a name below
// cluster.local, and false for a name that does not exist.
func serveNames(t *testing.T, address string, lookup func(name string) ([]netip.Addr, bool)) {
	t.Helper()
	conn, err := net.ListenPacket("udp", net.JoinHostPort(address, "53"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	go func() {
		packet := make([]byte, 512)
		for {
			n, from, err := conn.ReadFrom(packet)
			if err != nil {
				return
			}
			if answer := answerName(packet[:n], lookup); answer != nil {
				_, _ = conn.WriteTo(answer, from)
			}
		}
	}()
}

func answerName(packet []byte, lookup func(name string) ([]netip.Addr, bool)) []byte {
	var asked dnsmessage.Message
	if asked.Unpack(packet) != nil || len(asked.Questions) != 1 {
		return nil
	}
	question := asked.Questions[0]
	answer := dnsmessage.Message{Questions: asked.Questions,
		Header: dnsmessage.Header{ID: asked.ID, Response: true, Authoritative: true}}
	name, within := strings.CutSuffix(strings.ToLower(question.Name.String()), ".cluster.local.")
	addresses, found := lookup(name)
	if !within || !found {
		answer.RCode = dnsmessage.RCodeNameError
	}
	for _, address := range addresses {
		if within && question.Type == dnsmessage.TypeA {
			answer.Answers = append(answer.Answers, dnsmessage.Resource{
				Header: dnsmessage.ResourceHeader{Name: question.Name, Class: dnsmessage.ClassINET, TTL: 5},
				Body:   &dnsmessage.AResource{A: address.As4()}})
		}
	}
	packed, _ := answer.Pack()
	return packed
}
