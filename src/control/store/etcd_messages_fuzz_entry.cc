#include "control/store/etcd_messages_fuzz_entry.h"

#include <string>
#include <vector>

#include "base/check.h"
#include "control/store/etcd_messages.h"

namespace evermoe {
namespace {

// Fields that a reader skips: a number that no answer has, and the numbers that are read, each with
// another wire type than theirs.
std::vector<std::string> skipped_fields() {
  std::vector<std::string> fields = {std::string("\x78\x01", 2), "\x79" + std::string(8, '\1'),
                                     "\x7a\x01x", "\x7d" + std::string(4, '\1')};
  for (const int number : {1, 2, 3, 5, 6}) {
    const char tag = static_cast<char>(number << 3);
    fields.push_back(static_cast<char>(tag | 1) + std::string(8, '\1'));
    fields.push_back(static_cast<char>(tag | 5) + std::string(4, '\1'));
  }
  return fields;
}

template <typename Answer>
void read_as(absl::StatusOr<Answer> (*read)(const std::string&), const std::string& bytes,
             const std::vector<std::string>& of_other_types) {
  const absl::StatusOr<Answer> answer = read(bytes);
  if (!answer.ok()) {
    CHECK(absl::IsDataLoss(answer.status())) << answer.status();
    return;
  }
  static const std::vector<std::string>& skipped = *new std::vector(skipped_fields());
  for (const std::vector<std::string>& fields : {skipped, of_other_types}) {
    for (const std::string& field : fields) {
      for (const std::string& longer : {field + bytes, bytes + field}) {
        const absl::StatusOr<Answer> again = read(longer);
        CHECK(again.ok() && *again == *answer) << "a field to be skipped was read";
      }
    }
  }
}

}  // namespace

void fuzz_etcd_messages(const uint8_t* data, size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  const std::string text_2("\x12\x01x", 3), text_3("\x1a\x01x", 3);
  const std::string number_2("\x10\x01", 2), number_3("\x18\x01", 2);
  read_as(&etcd::read_lease_answer, bytes, {text_2, text_3});
  read_as(&etcd::read_range_answer, bytes, {number_2});
  read_as(&etcd::read_create_answer, bytes, {text_2, number_3});
}

}  // namespace evermoe
