// Directories, as the client of the scheme sees them.
#include "tap.h"

#include <ydb-cpp-sdk/client/scheme/scheme.h>

using namespace compat;
using namespace NYdb::NScheme;

int main() {
    {
        Fixture f("scheme");
        TSchemeClient scheme(f.Driver);
        const std::string directory = "/local/compat-cpp/scheme-directory";
        Success(Await(scheme.MakeDirectory(directory + "/inner")), "make a directory, and the one that it is in");
        auto listed = Await(scheme.ListDirectory(directory));
        if (Success(listed, "list")) {
            Ok(listed.GetChildren().size() == 1 && listed.GetChildren()[0].Name == "inner", "what is in it");
        }
        auto node = Await(scheme.DescribePath(f.Node));
        Ok(node.IsSuccess() && node.GetEntry().Type == ESchemeEntryType::CoordinationNode, "a node is a coordination node");
        Status(Await(scheme.RemoveDirectory(directory)), EStatus::SCHEME_ERROR, "remove one that has something in it");
        Success(Await(scheme.RemoveDirectory(directory + "/inner")), "remove the inner one");
        Success(Await(scheme.RemoveDirectory(directory)), "remove the outer one");
        Status(Await(scheme.DescribePath(directory)), EStatus::SCHEME_ERROR, "describe what is not there");
    }
    return Done();
}
