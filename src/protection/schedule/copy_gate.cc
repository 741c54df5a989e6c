#include "protection/schedule/copy_gate.h"

namespace evermoe {

bool CopyGate::may_send(const Line& line) {
  const int most = line.is_urgent ? options_.chunks_in_flight_max : options_.chunks_ahead_max;
  if (line.chunks_in_flight >= static_cast<size_t>(most)) return false;
  if (line.is_urgent) return true;
  if (line.now < next_) return false;
  if (!options_.keeps_to_gaps) return true;
  if (!put_off_since_) put_off_since_ = line.now;
  if (line.chunks_in_flight > 0) return false;
  return line.messages_under_way == 0 || line.now - *put_off_since_ >= options_.put_off_max;
}

void CopyGate::on_sent(absl::Duration now, int64_t bytes) {
  put_off_since_.reset();
  next_ = now + absl::Seconds(static_cast<double>(bytes) / options_.bytes_per_second);
}

}  // namespace evermoe
