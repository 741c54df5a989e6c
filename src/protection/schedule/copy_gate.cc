#include "protection/schedule/copy_gate.h"

namespace evermoe {

bool CopyGate::may_send(const Line& line) {
  if (line.chunks_in_flight >= static_cast<size_t>(options_.chunks_in_flight_max)) return false;
  if (!options_.keeps_to_gaps || line.is_urgent) return true;
  if (!put_off_since_) put_off_since_ = line.now;
  if (line.chunks_in_flight > 0) return false;
  return line.messages_under_way == 0 || line.now - *put_off_since_ >= options_.put_off_max;
}

}  // namespace evermoe
