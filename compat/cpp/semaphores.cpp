// Semaphores: every operation, and what each refuses.
#include "tap.h"

using namespace compat;

int main() {
    {
        Fixture f("semaphores");
        auto session = f.Start();
        Success(Await(session.CreateSemaphore("pool", 3, "old")), "create");
        Status(Await(session.CreateSemaphore("pool", 3)), EStatus::ALREADY_EXISTS, "create again");
        Success(Await(session.UpdateSemaphore("pool", "new")), "update");
        Acquired(Await(session.AcquireSemaphore("pool", TAcquireSemaphoreSettings().Count(2).Data("mine"))), true, "acquire 2 of 3");
        auto described = Await(session.DescribeSemaphore("pool", TDescribeSemaphoreSettings().IncludeOwners().IncludeWaiters()));
        if (Success(described, "describe")) {
            const auto& pool = described.GetResult();
            Is(pool.GetName(), std::string("pool"), "its name");
            Is(pool.GetData(), std::string("new"), "its data");
            Is(pool.GetLimit(), 3u, "its limit");
            Is(pool.GetCount(), 2u, "its count");
            Ok(!pool.IsEphemeral(), "it stays");
            Is(pool.GetWaiters().size(), 0u, "nobody waits");
            if (Is(pool.GetOwners().size(), 1u, "one owner")) {
                const auto& owner = pool.GetOwners()[0];
                Is(owner.GetSessionId(), session.GetSessionId(), "its session");
                Is(owner.GetCount(), 2u, "its count");
                Is(owner.GetData(), std::string("mine"), "its data");
                Ok(owner.GetOrderId() != 0, "its place");
            }
        }
        Status(Await(session.DeleteSemaphore("pool")), EStatus::PRECONDITION_FAILED, "delete what is held");
        auto released = Await(session.ReleaseSemaphore("pool"));
        Ok(released.IsSuccess() && released.GetResult(), "release");
        auto again = Await(session.ReleaseSemaphore("pool"));
        Ok(again.IsSuccess() && !again.GetResult(), "release again");
        Success(Await(session.DeleteSemaphore("pool")), "delete");
        Success(Await(session.CreateSemaphore("pool", 1)), "create anew");
        Acquired(Await(session.AcquireSemaphore("pool", TAcquireSemaphoreSettings().Shared())), true, "acquire anew");
        Success(Await(session.DeleteSemaphore("pool", true)), "delete with force");
        Status(Await(session.DescribeSemaphore("pool")), EStatus::NOT_FOUND, "describe what is not there");
        Status(Await(session.UpdateSemaphore("pool", "")), EStatus::NOT_FOUND, "update what is not there");
        Success(Await(session.Close()), "close");
    }
    return Done();
}
