// Compression: each kind that the SDK has.
#include "tap.h"

using namespace compat;

int main() {
    for (const auto& [algorithm, name] : {std::pair{NYdb::EGrpcCompressionAlgorithm::Gzip, "gzip"},
                                          std::pair{NYdb::EGrpcCompressionAlgorithm::Deflate, "deflate"}})
    {
        Fixture f(std::string("compression-") + name, Server().SetGRpcCompressionAlgorithm(algorithm));
        auto session = f.Start();
        std::string data;
        for (int i = 0; i < (1 << 16); ++i) {
            data.push_back(static_cast<char>(i * i / 256));
        }
        Success(Await(session.CreateSemaphore("config", 1, data)), std::string(name) + ": create with 64 KiB");
        Acquired(Await(session.AcquireSemaphore("config", TAcquireSemaphoreSettings().Count(1).Data(data))), true,
            std::string(name) + ": acquire with as much");
        auto described = Await(session.DescribeSemaphore("config", TDescribeSemaphoreSettings().IncludeOwners()));
        if (Success(described, std::string(name) + ": describe")) {
            const auto& config = described.GetResult();
            Ok(config.GetData() == data, "its data");
            Ok(config.GetOwners().size() == 1 && config.GetOwners()[0].GetData() == data, "its owner's data");
        }
        Success(Await(session.DeleteSemaphore("config", true)), std::string(name) + ": delete");
        Success(Await(session.Close()), "close");
    }
    return Done();
}
