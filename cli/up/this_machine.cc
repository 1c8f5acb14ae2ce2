#include "cli/up/this_machine.h"

#include <utility>

#include "cli/daemon.h"

namespace launch::up {
namespace {

class LocalShell final : public Remote {
 public:
  Result<RemoteAnswer> Send(const std::string& command, std::string_view input, Millis deadline,
                            const SentBytes& sent) override {
    LAUNCH_ASSIGN_OR_RETURN(Finished done,
                            RunToEnd({"/bin/sh", "-c", command}, std::string(input), deadline));
    sent(input.size());
    return RemoteAnswer{done.code > 128 ? -1 : done.code, std::move(done.output),
                        std::move(done.errors)};
  }
};

}  // namespace

std::unique_ptr<Remote> ThisMachine() { return std::make_unique<LocalShell>(); }

}  // namespace launch::up
