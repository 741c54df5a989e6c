// What gRPC has to say goes to our own log, at its lowest level: its errors come back to us as
// errors, and a worker's last line is shown to the user. Only why it aborts is an error of ours.
#pragma once

namespace evermoe {

void quieten_library();

}  // namespace evermoe
