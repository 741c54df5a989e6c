// What a thread does while a message that it needs is on its way.
#pragma once

#include <functional>
#include <memory>

#include "comm/transport/transport.h"

namespace evermoe {

// Does one piece of other work, of milliseconds: what arrives during it waits for its end. Returns
// false, having done nothing, if there is none now. An empty one stands for never any.
using IdleWork = std::function<bool()>;

// Transport::wait(), but sleeps only when `idle_work` has nothing to do. The timeout counts from
// then on.
absl::Status wait_for_message(Transport& transport, std::unique_ptr<TransportOperation> operation,
                              absl::Duration timeout, const IdleWork& idle_work);

}  // namespace evermoe
