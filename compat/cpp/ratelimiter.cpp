// Rate limiters: every call.
#include "tap.h"

#include <ydb-cpp-sdk/client/rate_limiter/rate_limiter.h>

#include <thread>

using namespace compat;
using namespace NYdb::NRateLimiter;

int main() {
    {
        Fixture f("ratelimiter");
        TRateLimiterClient limiter(f.Driver);
        // The SDK does not try again by itself. A cluster that has just started says UNAVAILABLE, for its servers do not know
        // yet what the others can do.
        const auto create = [&](const std::string& path) {
            for (;;) {
                auto created = Await(limiter.CreateResource(f.Node, path, TCreateResourceSettings().MaxUnitsPerSecond(1000)));
                if (created.GetStatus() != EStatus::UNAVAILABLE) {
                    return created;
                }
                std::this_thread::sleep_for(std::chrono::milliseconds(50));
            }
        };
        Success(create("rate"), "create");
        Success(create("rate/inner"), "create below it");
        Success(Await(limiter.AlterResource(f.Node, "rate", TAlterResourceSettings().MaxUnitsPerSecond(2000))), "alter");
        auto described = Await(limiter.DescribeResource(f.Node, "rate"));
        if (Success(described, "describe")) {
            Ok(described.GetHierarchicalDrrProps().GetMaxUnitsPerSecond() == 2000, "the rate is the one that was set");
        }
        auto listed = Await(limiter.ListResources(f.Node, "", TListResourcesSettings().Recursive()));
        if (Success(listed, "list")) {
            Is(listed.GetResourcePaths().size(), 2u, "both are there");
        }
        Success(Await(limiter.AcquireResource(f.Node, "rate/inner", TAcquireResourceSettings().Amount(1))), "acquire");
        Success(Await(limiter.AcquireResource(f.Node, "rate/inner", TAcquireResourceSettings().Amount(1).IsUsedAmount())), "report");
        Status(Await(limiter.DropResource(f.Node, "rate")), EStatus::BAD_REQUEST, "drop what has something below it");
        Success(Await(limiter.DropResource(f.Node, "rate/inner")), "drop the inner one");
        Success(Await(limiter.DropResource(f.Node, "rate")), "drop the outer one");
        Status(Await(limiter.DescribeResource(f.Node, "rate")), EStatus::NOT_FOUND, "describe what is not there");
    }
    return Done();
}
