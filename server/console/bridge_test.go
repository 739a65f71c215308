package console

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/coordd/coordd/server/adminpb"
)

// TestVersionIsOfTheContent: an answer has another version if something else in it has changed than its time.
func TestVersionIsOfTheContent(t *testing.T) {
	page := &adminpb.Page{TimeMillis: 1, Semaphores: []*adminpb.Semaphore{{Name: []byte("lock"), WaiterCount: 1}}}
	versions := make(map[string]bool)
	for range 2 {
		version, err := versionOf(page)
		if err != nil {
			t.Fatal(err)
		}
		versions[version] = true
		page.TimeMillis++
	}
	if page.GetTimeMillis() != 3 || len(versions) != 1 {
		t.Errorf("%d versions, and the page has the time %d", len(versions), page.GetTimeMillis())
	}
	page.Semaphores[0].WaiterCount++
	if version, err := versionOf(proto.Clone(page)); err != nil || versions[version] {
		t.Errorf("the version of another page: %s, %v", version, err)
	}
}
