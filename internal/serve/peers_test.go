package serve

import (
	"strings"
	"testing"
)

func TestUnlikePeers(t *testing.T) {
	for _, test := range []struct {
		listen, advertise, initial string
		warned                     bool
	}{
		{"127.0.0.1:5830", "", "a=127.0.0.1:5820,b=127.0.0.1:5821", true},
		{"127.0.0.1:5820", "", "a=127.0.0.1:5820,b=127.0.0.1:5821", false},
		{"127.0.0.1:5830", "h:5830", "a=127.0.0.1:5820", false},
		{":2380", "h:443", "", true},
		{"", "", "", false},
	} {
		s := Settings{Cluster: ClusterSettings{Name: "a", Listen: Listener(test.listen),
			Advertise: PeerAddress(test.advertise),
			Initial:   InitialPeers(test.initial)}}
		if got := s.unlikePeers(); strings.Contains(got, "told to connect") != test.warned {
			t.Errorf("%+v: %q", test, got)
		}
	}
}
