#include "checkpoint/object_store/s3_answers_fuzz_entry.h"

#include <string>

#include "base/check.h"
#include "checkpoint/object_store/s3_answers.h"
#include "checkpoint/object_store/stored_checkpoints.h"

namespace evermoe {

void fuzz_s3_answers(std::span<const std::byte> bytes) {
  const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const auto page = parse_object_page(text, "fuzz");
  if (page.ok()) {
    for (const StoredCheckpoint& found : stored_checkpoints(page->objects))
      CHECK(found.step >= Step(0) && !found.manifest.empty());
  }
  (void)parse_upload_id(text, "fuzz").ok();
  const S3Error error = parse_s3_error(text);
  CHECK(error.message.find('\n') == std::string::npos);
}

}  // namespace evermoe
