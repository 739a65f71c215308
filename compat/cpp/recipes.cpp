// The documentation's recipes: an election of a leader, services that find one another, a configuration that is followed.
#include "tap.h"

#include <memory>
#include <set>

using namespace compat;

// Described describes a semaphore until it is as wanted, each time that it changes: a change without a flag means to look
// again as well.
template <class TWanted>
void Described(TSession& session, const std::string& name, const std::string& what, TWanted wanted) {
    for (;;) {
        auto changed = std::make_shared<Events<bool>>();
        auto described = Await(session.DescribeSemaphore(name, TDescribeSemaphoreSettings()
            .WatchData().WatchOwners().IncludeOwners().OnChanged([changed](bool is) { changed->Push(is); })));
        if (!described.IsSuccess()) {
            Success(described, what);
            return;
        }
        if (wanted(described.GetResult())) {
            Ok(true, what);
            return;
        }
        changed->Next(what);
    }
}

std::set<std::string> Data(const TSemaphoreDescription& semaphore) {
    std::set<std::string> data;
    for (const auto& owner : semaphore.GetOwners()) {
        data.insert(owner.GetData());
    }
    return data;
}

int main() {
    {
        Fixture f("recipes");
        auto first = f.Start();
        auto second = f.Start();
        auto observer = f.Start();

        Success(Await(first.CreateSemaphore("leader", 1)), "a semaphore for the election");
        const auto candidate = [](const std::string& name) { return TAcquireSemaphoreSettings().Count(1).Data(name); };
        Acquired(Await(first.AcquireSemaphore("leader", candidate("first"))), true, "a leader");
        auto waiting = second.AcquireSemaphore("leader", candidate("second"));
        Described(observer, "leader", "the first leader is seen", [](const auto& s) { return Data(s) == std::set<std::string>{"first"}; });

        Success(Await(first.CreateSemaphore("services", UINT64_MAX)), "a semaphore for the services");
        const auto service = [](const std::string& endpoint) { return TAcquireSemaphoreSettings().Shared().Data(endpoint); };
        Acquired(Await(first.AcquireSemaphore("services", service("host-1:80"))), true, "a service");
        Acquired(Await(second.AcquireSemaphore("services", service("host-2:80"))), true, "another");
        Described(observer, "services", "both services are seen",
            [](const auto& s) { return Data(s) == std::set<std::string>{"host-1:80", "host-2:80"}; });

        Success(Await(first.CreateSemaphore("configuration", 1, "1")), "a semaphore for the configuration");
        Success(Await(first.UpdateSemaphore("configuration", "2")), "another configuration");
        Described(observer, "configuration", "it is seen", [](const auto& s) { return s.GetData() == "2"; });

        Success(Await(first.Close()), "the leader goes");
        Acquired(Await(waiting), true, "the other one leads");
        Described(observer, "leader", "the second leader is seen", [](const auto& s) { return Data(s) == std::set<std::string>{"second"}; });
        Described(observer, "services", "its service is gone", [](const auto& s) { return Data(s) == std::set<std::string>{"host-2:80"}; });
        Success(Await(second.Close()), "close the second");
        Success(Await(observer.Close()), "close the observer");
    }
    return Done();
}
