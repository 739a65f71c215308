// Locks: one at a time, readers and writers, waits that end.
#include "tap.h"

using namespace compat;

int main() {
    {
        Events<bool> accepted;
        Fixture f("locks");
        auto holder = f.Start();
        auto next = f.Start();
        Acquired(Await(holder.AcquireSemaphore("lock", Lock().Data("holder"))), true, "take the lock");
        Acquired(Await(next.AcquireSemaphore("lock", Lock().Timeout(TDuration::Zero()))), false, "try it");
        Acquired(Await(next.AcquireSemaphore("lock", Lock().Timeout(TDuration::MilliSeconds(200)))), false, "wait too short");
        auto waiting = next.AcquireSemaphore("lock", Lock().OnAccepted([&] { accepted.Push(true); }));
        Ok(accepted.Next("accepted"), "told of the wait");
        auto described = Await(holder.DescribeSemaphore("lock", TDescribeSemaphoreSettings().IncludeOwners().IncludeWaiters()));
        Ok(described.IsSuccess() && described.GetResult().IsEphemeral() && described.GetResult().GetWaiters().size() == 1,
            "the wait is seen");
        Ok(!waiting.HasValue(), "it goes on");
        Success(Await(holder.ReleaseSemaphore("lock")), "give the lock back");
        Acquired(Await(waiting), true, "the next one has it");
        Success(Await(next.Close()), "the end of a session gives it back");
        Acquired(Await(holder.AcquireSemaphore("lock", Lock())), true, "take it again");

        // Readers share, and a writer waits for all of them.
        Success(Await(holder.CreateSemaphore("rw", UINT64_MAX)), "create a lock of readers and writers");
        auto reader = f.Start();
        auto writer = f.Start();
        const auto shared = TAcquireSemaphoreSettings().Shared();
        Acquired(Await(holder.AcquireSemaphore("rw", shared)), true, "a reader");
        Acquired(Await(reader.AcquireSemaphore("rw", shared)), true, "another");
        auto writing = writer.AcquireSemaphore("rw", TAcquireSemaphoreSettings().Exclusive().OnAccepted([&] { accepted.Push(true); }));
        Ok(accepted.Next("accepted"), "a writer waits");
        Success(Await(holder.ReleaseSemaphore("rw")), "a reader goes");
        Success(Await(reader.ReleaseSemaphore("rw")), "the other one goes");
        Acquired(Await(writing), true, "the writer");
        Acquired(Await(reader.AcquireSemaphore("rw", TAcquireSemaphoreSettings().Shared().Timeout(TDuration::Zero()))), false,
            "no reader beside it");
        Success(Await(reader.Close()), "close the reader");
        Success(Await(writer.Close()), "close the writer");
        Success(Await(holder.Close()), "close the holder");
    }
    return Done();
}
