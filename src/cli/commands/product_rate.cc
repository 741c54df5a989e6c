#include "cli/commands/product_rate.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "cli/worker_program.h"

namespace evermoe {

absl::StatusOr<double> product_rate() {
  ASSIGN_OR_RETURN(const std::string program, find_worker(/*option=*/""));
  ASSIGN_OR_RETURN(const std::string answer, ask_worker(program, {"product-rate"}));
  double rate = 0;
  if (!absl::SimpleAtod(answer, &rate))
    return Internal(absl::StrCat(program, " product-rate: '", answer, "'"));
  return rate;
}

}  // namespace evermoe
