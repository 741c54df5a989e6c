#include "control/wire/library_log.h"

#include <grpc/support/log.h>

#include "absl/strings/str_cat.h"
#include "base/log.h"

namespace evermoe {

void quieten_library() {
  gpr_set_log_function(
      [](gpr_log_func_args* said) { log_debug(absl::StrCat("grpc: ", said->message)); });
}

}  // namespace evermoe
