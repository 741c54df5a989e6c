#include "comm/transport/frame.h"

#include <xxhash.h>

#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"

namespace evermoe {
namespace {

constexpr uint32_t kMagic = 0x314D5645;  // "EVM1"

struct Layout {
  uint32_t magic;
  uint16_t kind;
  uint16_t group;
  uint32_t view;
  uint32_t purpose;
  uint64_t length;
  uint32_t zero;
  uint32_t checksum;
};
static_assert(sizeof(Layout) == kFrameHeaderBytes);

uint32_t checksum(const Layout& layout) {
  return static_cast<uint32_t>(XXH3_64bits(&layout, offsetof(Layout, checksum)));
}

bool is_known(uint16_t kind) { return kind >= 1 && kind <= 2; }

constexpr uint32_t kGreetingMagic = 0x474D5645;  // "EVMG"
constexpr uint16_t kGreetingVersion = 3;

struct GreetingLayout {
  uint32_t magic;
  uint16_t version;
  uint16_t kind;
  uint32_t rank;
  uint32_t world_size;
  uint64_t process;
  uint32_t since;
  uint32_t checksum;
};
static_assert(sizeof(GreetingLayout) == kGreetingBytes);

uint32_t checksum(const GreetingLayout& layout) {
  return static_cast<uint32_t>(XXH3_64bits(&layout, offsetof(GreetingLayout, checksum)));
}

}  // namespace

FrameBytes encode_frame(const FrameHeader& header) {
  Layout layout{kMagic,
                static_cast<uint16_t>(header.kind),
                header.tag.group,
                header.tag.view.value,
                header.tag.purpose,
                header.length,
                0,
                0};
  layout.checksum = checksum(layout);
  FrameBytes bytes;
  std::memcpy(bytes.data(), &layout, sizeof(layout));
  return bytes;
}

absl::StatusOr<FrameHeader> decode_frame(std::span<const std::byte> bytes) {
  CHECK(bytes.size() == kFrameHeaderBytes);
  Layout layout;
  std::memcpy(&layout, bytes.data(), sizeof(layout));
  if (layout.magic != kMagic) {
    return Corrupt(absl::StrCat("frame begins with ", absl::Hex(layout.magic), ", not with EVM1"));
  }
  if (layout.checksum != checksum(layout)) return Corrupt("frame header fails its checksum");
  if (!is_known(layout.kind) || layout.zero != 0) {
    return Corrupt(absl::StrCat("frame of unknown kind ", layout.kind));
  }
  const auto kind = static_cast<FrameKind>(layout.kind);
  const uint64_t length_max = kind == FrameKind::kData ? kFramePayloadBytesMax : 0;
  if (layout.length > length_max) {
    return Corrupt(absl::StrCat("frame claims ", layout.length, " bytes of payload"));
  }
  return FrameHeader{kind, Tag{View(layout.view), layout.group, layout.purpose}, layout.length};
}

uint64_t process_number(std::string_view address) {
  return XXH3_64bits(address.data(), address.size());
}

GreetingBytes encode_greeting(const Greeting& greeting) {
  GreetingLayout layout{kGreetingMagic,
                        kGreetingVersion,
                        static_cast<uint16_t>(greeting.kind),
                        static_cast<uint32_t>(greeting.rank.value),
                        greeting.world_size,
                        greeting.process,
                        greeting.since.value,
                        0};
  layout.checksum = checksum(layout);
  GreetingBytes bytes;
  std::memcpy(bytes.data(), &layout, sizeof(layout));
  return bytes;
}

absl::StatusOr<Greeting> decode_greeting(std::span<const std::byte> bytes) {
  CHECK(bytes.size() == kGreetingBytes);
  GreetingLayout layout;
  std::memcpy(&layout, bytes.data(), sizeof(layout));
  if (layout.magic != kGreetingMagic) return Corrupt("not a greeting");
  if (layout.checksum != checksum(layout)) return Corrupt("greeting fails its checksum");
  if (layout.version != kGreetingVersion) {
    return Unsupported(
        absl::StrCat("greeting of version ", layout.version, ", not ", kGreetingVersion));
  }
  if (layout.kind > 1 || layout.rank >= layout.world_size || layout.world_size > INT32_MAX) {
    return Corrupt(absl::StrCat("greeting of kind ", layout.kind, " of rank ", layout.rank, " of ",
                                layout.world_size));
  }
  return Greeting{Rank(static_cast<int32_t>(layout.rank)), layout.world_size, View(layout.since),
                  layout.process, static_cast<GreetingKind>(layout.kind)};
}

}  // namespace evermoe
