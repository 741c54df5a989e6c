#include "control/wire/library_log.h"

#include <grpc/support/log.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/log.h"

namespace evermoe {

void quieten_library() {
  gpr_set_log_function([](gpr_log_func_args* said) {
    const std::string text = absl::StrCat("grpc: ", said->message);
    absl::StrContains(text, "assertion failed") ? log_error(text) : log_debug(text);
  });
}

}  // namespace evermoe
