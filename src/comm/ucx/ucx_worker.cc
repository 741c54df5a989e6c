#include "comm/ucx/ucx_worker.h"

#include <cstdlib>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/error.h"
#include "base/log.h"

namespace evermoe {
namespace {

// Calls of ucp_worker_progress in a row: while a connection is being made it always finds something
// to do, and deadlines have to be looked at.
constexpr int kProgressRoundsMax = 1000;

// In such pieces UCX fetches and delivers messages over TCP (ucx_bytes.h), a system call each. It
// has memory for those on their way: at most one for each connection and direction.
constexpr const char* kTcpPiece = "128k";

// The environment must be right before UCX is loaded: here it is too late for more than a warning.
void check_environment() {
  for (const auto& [name, value] : ucx_environment()) {
    const char* const found = std::getenv(name.c_str());
    if (found == nullptr || value != found) {
      log_warning(absl::StrCat(name, " should be ", value, " in the environment of this process"));
    }
  }
}

// UCX_TLS and UCX_NET_DEVICES of the environment, where the options leave the choice open. Shared
// memory is never taken from there: a killed sender can block a receiver's queue for everybody.
std::string chosen_transports(const UcxTransportOptions& options) {
  const char* wanted = std::getenv("UCX_TLS");
  if (wanted == nullptr) return options.transports;
  const std::set<std::string> safe = {"self", "tcp",  "ib", "rc",   "rc_v", "rc_x",
                                      "dc",   "dc_x", "ud", "ud_v", "ud_x"};
  for (const std::string& name : std::vector<std::string>(absl::StrSplit(wanted, ','))) {
    if (!safe.contains(name)) {
      log_warning(absl::StrCat("UCX_TLS=", wanted, " is not used: ", name, " is not among ",
                               absl::StrJoin(safe, ",")));
      return options.transports;
    }
  }
  return wanted;
}

std::string chosen_devices(const UcxTransportOptions& options) {
  const char* wanted = std::getenv("UCX_NET_DEVICES");
  return wanted != nullptr && options.net_devices == "all" ? wanted : options.net_devices;
}

// TCP connects without blocking: a call to a machine that does not answer would hold the caller far
// beyond its deadline. And where the called process dies in the middle of a blocking call, UCX 1.13
// fails an assertion (its endpoint has failed before it counts as one that sends), which ends ours.
absl::StatusOr<ucp_config_t*> configure(const UcxTransportOptions& options) {
  ucp_config_t* config = nullptr;
  if (const auto status = ucp_config_read(nullptr, nullptr, &config); status != UCS_OK) {
    return ucx_error("ucp_config_read", status);
  }
  for (const auto& [name, value] : {std::pair{"TLS", chosen_transports(options)},
                                    {"NET_DEVICES", chosen_devices(options)},
                                    {"CONN_NB", std::string("y")},
                                    {"TX_SEG_SIZE", std::string(kTcpPiece)},
                                    {"RX_SEG_SIZE", std::string(kTcpPiece)}}) {
    if (const auto status = ucp_config_modify(config, name, value.c_str()); status != UCS_OK) {
      ucp_config_release(config);
      return InvalidInput(absl::StrCat("UCX does not take ", name, "=", value));
    }
  }
  return config;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> ucx_environment() {
  return {{"UCX_MEM_EVENTS", "n"}, {"UCX_HANDLE_ERRORS", "none"}};
}

absl::Status ucx_error(const std::string& what, ucs_status_t status) {
  return Internal(absl::StrCat(what, ": ", ucs_status_string(status)));
}

absl::StatusOr<std::shared_ptr<const UcxContext>> UcxContext::create(
    const UcxTransportOptions& options) {
  check_environment();
  ASSIGN_OR_RETURN(ucp_config_t* const config, configure(options));
  const std::shared_ptr<UcxContext> context(new UcxContext);
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED;
  params.features = UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP;
  params.mt_workers_shared = 1;
  const auto status = ucp_init(&params, config, &context->context_);
  ucp_config_release(config);
  if (status == UCS_OK) return context;
  return Unsupported(absl::StrCat("UCX cannot use ", options.transports, " on ",
                                  options.net_devices, ": ", ucs_status_string(status)));
}

UcxContext::~UcxContext() {
  if (context_ != nullptr) ucp_cleanup(context_);
}

absl::StatusOr<std::unique_ptr<UcxWorker>> UcxWorker::create(
    std::shared_ptr<const UcxContext> context) {
  std::unique_ptr<UcxWorker> worker(new UcxWorker);
  worker->context_ = std::move(context);
  ucp_worker_params_t params{};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  auto status = ucp_worker_create(worker->context_->get(), &params, &worker->worker_);
  if (status != UCS_OK) return ucx_error("ucp_worker_create", status);
  status = ucp_worker_get_efd(worker->worker_, &worker->event_fd_);
  if (status != UCS_OK) return ucx_error("ucp_worker_get_efd", status);
  return worker;
}

UcxWorker::~UcxWorker() {
  if (worker_ != nullptr) ucp_worker_destroy(worker_);
}

absl::StatusOr<std::string> UcxWorker::address() const {
  ucp_address_t* address = nullptr;
  size_t size = 0;
  if (const auto status = ucp_worker_get_address(worker_, &address, &size); status != UCS_OK) {
    return ucx_error("ucp_worker_get_address", status);
  }
  std::string bytes(reinterpret_cast<const char*>(address), size);
  ucp_worker_release_address(worker_, address);
  return bytes;
}

bool UcxWorker::progress() {
  int round = 0;
  while (round < kProgressRoundsMax && ucp_worker_progress(worker_) != 0) ++round;
  return round > 0;
}

absl::StatusOr<bool> UcxWorker::arm() {
  const auto status = ucp_worker_arm(worker_);
  if (status == UCS_ERR_BUSY) return false;
  if (status != UCS_OK) return ucx_error("ucp_worker_arm", status);
  return true;
}

}  // namespace evermoe
