// Python's safetensors reads our files, and torch casts as we do
// (tests/store_safetensors_check.py).
#include <gtest/gtest.h>

#include <random>

#include "checkpoint/fake_state_testing.h"
#include "checkpoint/format/casts.h"
#include "checkpoint/format/checkpoint_names.h"
#include "env/process.h"

namespace evermoe {
namespace {

// Random bit patterns, so that subnormals, infinities and NaNs are among them.
std::string random_floats(size_t count) {
  std::mt19937_64 random(11);
  std::string bytes(count * 4, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  // Random exponents rarely hit fp16's range: half of the floats are drawn there.
  for (size_t i = 0; i < count; i += 2) {
    const uint32_t exponent = 100 + static_cast<uint32_t>(random() % 46);
    bytes[i * 4 + 3] = static_cast<char>((bytes[i * 4 + 3] & 0x80) | exponent >> 1);
    bytes[i * 4 + 2] = static_cast<char>((bytes[i * 4 + 2] & 0x7f) | exponent << 7);
  }
  return bytes;
}

TEST(PythonTest, SafetensorsReadsTheShardsAndTorchCastsAlike) {
  const ScratchFolder folder;
  FakeState state;
  SaverOptions options;
  options.directory = folder.at("checkpoints");
  options.world_size = 3;
  options.compute_type = state.compute_type;
  ASSERT_TRUE(FakeJob::open(real_files(), options).value()->save(state, Step(4)).ok());

  const std::string floats = random_floats(1 << 18);
  ASSERT_TRUE(write_file_synced(real_files(), folder.at("fp32.bin"), floats).ok());
  for (ElementType type : {ElementType::kBf16, ElementType::kFp16}) {
    std::string cast(floats.size() / 2, '\0');
    cast_elements(ElementType::kFp32, std::as_bytes(std::span(floats)), type,
                  std::as_writable_bytes(std::span(cast)));
    const std::string name = std::string(to_string(type)) + ".bin";
    ASSERT_TRUE(write_file_synced(real_files(), folder.at(name), cast).ok());
  }
  SpawnOptions python{.program = EVERMOE_PYTHON};
  python.arguments = {EVERMOE_SOURCE_DIR "/tests/store_safetensors_check.py",
                      join_path(options.directory, step_directory_name(Step(4))), folder.path()};
  auto check = spawn(python);
  ASSERT_TRUE(check.ok()) << check.status();
  EXPECT_EQ(to_string((*check)->wait(absl::Minutes(2)).value()), "exit code 0");
}

}  // namespace
}  // namespace evermoe
