package standin_test

import (
	"context"
	"fmt"
	"time"

	"github.com/coordd/coordd/server/standin"
)

// In a test it would be s := standin.Start(t), and the code under test would get s.ConnectionString().
func Example() {
	s, err := standin.Run(context.Background(), standin.FakeTime(), standin.Fixture("app\n"))
	if err != nil {
		panic(err)
	}
	defer s.Stop()

	first, second := s.Client("app"), s.Client("app")
	fmt.Println("the first has the lock:", first.Acquire("lock", standin.Exclusive))
	fmt.Println("the second has it, too:", second.Acquire("lock", standin.Exclusive))

	first.Vanish() // its session goes on until its timeout
	second.Queue("lock", standin.Exclusive)
	fmt.Println("waiting:", len(s.Waiters("app", "lock")))

	s.Advance(time.Minute)
	fmt.Println("the second has it now:", s.Owners("app", "lock")[0].Session == second.ID)
	// Output:
	// the first has the lock: true
	// the second has it, too: false
	// waiting: 1
	// the second has it now: true
}
