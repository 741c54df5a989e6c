// A HostStore in etcd: one key for the elected host, with its lease, so that it vanishes with
// that.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "config/job_config.h"
#include "control/store/host_store.h"

namespace evermoe {

// `config.store`: the members of one cluster, any of which may be away; `key`: of the
// election, the same for all candidates of a job and for no other job. InvalidInput names what is
// wrong with the store or a file. Connects when it is first asked; members that do not prove who
// they are, or do not take what we show, do not answer.
absl::StatusOr<std::unique_ptr<HostStore>> open_etcd_store(const ControlConfig& config,
                                                           const std::string& key);

}  // namespace evermoe
