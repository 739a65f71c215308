// Nodes: made, made again, changed, described, dropped.
#include "tap.h"

using namespace compat;

int main() {
    {
        Fixture f("nodes");
        Success(Await(f.Client.CreateNode(f.Node)), "a node that is there is made again");
        Success(Await(f.Client.AlterNode(f.Node, TAlterNodeSettings().SessionGracePeriod(TDuration::Seconds(5)))), "alter");
        auto described = Await(f.Client.DescribeNode(f.Node));
        if (Success(described, "describe")) {
            Ok(described.GetResult().GetSessionGracePeriod() == TDuration::Seconds(5), "the grace period is the one that was set");
        }
        Status(Await(f.Client.DescribeNode(f.Node + "/nothing")), EStatus::SCHEME_ERROR, "describe what is not there");
        Status(Await(f.Client.DropNode(f.Node + "/nothing")), EStatus::SCHEME_ERROR, "drop what is not there");
        Status(Await(f.Client.StartSession(f.Node + "/nothing")), EStatus::NOT_FOUND, "start a session where no node is");
    }
    return Done();
}
