// One running controller: state, loop, services and server wired together.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "common/clock.h"
#include "common/controller_config.h"
#include "controller/enrolment.h"
#include "controller/loop.h"
#include "controller/services/doorkeeper.h"
#include "controller/store/store.h"

namespace launch::controller {

// Between stored bytes and entities; proto/record.proto is the format.
struct RecordCodec {
  EncodeEntity encode = nullptr;
  Result<Entity> (*decode)(const std::string& key, const std::string& bytes) = nullptr;
};

// The records of a new cluster, committed once by `init`.
Decision FirstRecords(const std::string& cluster, const std::string& user,
                      const std::string& user_serial);
Result<void> InitStore(Store& store, EncodeEntity encode, const Decision& first, WallTime now);

class Controller {
 public:
  struct Parts {
    Credentials credentials;
    std::unique_ptr<Store> store;  // open and ours
    RecordCodec codec;
    std::shared_ptr<Clock> clock;
    ControllerConfig config;
    std::string state_dir;
    // The loop ended because the store failed: the process must end. Called on the loop's thread.
    std::function<void(const Error&)> on_failure;
    DoorLimits door{};
  };

  // Loads and verifies the store, opens a new epoch, serves. kDataLoss names the row.
  static Result<std::unique_ptr<Controller>> Start(Parts parts);
  ~Controller();  // stops

  const std::string& address() const;  // "host:port" that answers on this host
  void Stop();

 private:
  struct Running;
  explicit Controller(std::unique_ptr<Running> running);

  std::unique_ptr<Running> running_;
};

}  // namespace launch::controller
