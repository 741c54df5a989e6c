#include "data/token_record_fuzz_entry.h"

#include <string>

#include "base/check.h"
#include "data/job_tokens.h"

namespace evermoe {

void fuzz_token_record(const uint8_t* data, size_t size) {
  const auto record = parse_token_record(std::string(reinterpret_cast<const char*>(data), size));
  if (!record.ok()) return;
  const auto again = parse_token_record(token_record_text(*record));
  CHECK(again.ok() && *again == *record);
}

}  // namespace evermoe
