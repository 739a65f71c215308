// Watches: of data, of owners, one that another takes the place of.
#include "tap.h"

using namespace compat;

int main() {
    {
        Events<bool> changed;
        Events<bool> replaced;
        Fixture f("watches");
        auto watcher = f.Start();
        auto writer = f.Start();
        Success(Await(writer.CreateSemaphore("config", 1, "1")), "create");
        auto settings = TDescribeSemaphoreSettings().OnChanged([&](bool is) { changed.Push(is); });

        auto ofData = settings;
        Success(Await(watcher.DescribeSemaphore("config", ofData.WatchData())), "watch the data");
        Success(Await(writer.UpdateSemaphore("config", "2")), "update");
        Ok(changed.Next("the data"), "told of the data");

        auto ofOwners = settings;
        Success(Await(watcher.DescribeSemaphore("config", ofOwners.WatchOwners())), "watch the owners");
        Acquired(Await(writer.AcquireSemaphore("config", TAcquireSemaphoreSettings().Count(1))), true, "acquire");
        Ok(changed.Next("the owners"), "told of the owners");

        Success(Await(watcher.DescribeSemaphore("config",
            TDescribeSemaphoreSettings().WatchData().OnChanged([&](bool is) { replaced.Push(is); }))), "watch");
        Success(Await(watcher.DescribeSemaphore("config", ofOwners)), "watch in its place");
        Ok(!replaced.Next("replaced"), "told that nothing has changed");
        Success(Await(writer.ReleaseSemaphore("config")), "release");
        Ok(changed.Next("the owners again"), "told of the owners again");
        Success(Await(watcher.Close()), "close the watcher");
        Success(Await(writer.Close()), "close the writer");
    }
    return Done();
}
