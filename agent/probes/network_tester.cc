#include "agent/probes/network_tester.h"

#include <map>
#include <vector>

#include "agent/probes/child_process.h"
#include "common/network_answer.h"

namespace launch::agent {
namespace {

constexpr Millis kTestDeadline{160'000};  // the program gives up by itself before

}  // namespace

NetworkFacts TestNetwork(const std::string& interpreter, const std::string& nccl_program,
                         const AllocationSpec& spec, const to_node::NetworkTest& test,
                         const std::optional<LocalAccount>& account,
                         const std::atomic<bool>& cancel, const MakeProbeScope& scope) {
  std::map<std::string, std::string> env;
  if (!spec.ranks.empty()) {
    for (const EnvVar& variable : spec.ranks.front().env) env[variable.name] = variable.value;
  }
  for (const EnvVar& variable : test.env) env[variable.name] = variable.value;
  if (!spec.gpus.empty()) env["LAUNCH_NCCL_TEST"] = nccl_program;
  const std::vector<std::string> argv = {interpreter,
                                         "-c",
                                         std::string(kNetworkTest),
                                         test.address,
                                         std::to_string(test.port),
                                         std::to_string(test.place),
                                         std::to_string(test.nodes),
                                         ToString(spec.key) + "." + std::to_string(test.round)};
  if (account) {
    env.try_emplace("HOME", account->home);
    env.try_emplace("USER", account->name);
  }
  const Result<Captured> ran = RunProgram(argv, env, kTestDeadline, &cancel, account, scope);
  if (!ran) return NoAnswer(ran.error().message);
  if (!ran->status) {
    return NoAnswer(cancel
                        ? "cancelled"
                        : "no end within " + std::to_string(kTestDeadline.count() / 1000) + " s");
  }
  return ReadNetworkAnswer(ran->output);
}

}  // namespace launch::agent
