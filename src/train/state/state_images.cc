#include "train/state/state_images.h"

#include <cstring>
#include <utility>

#include "base/check.h"
#include "tensor/host_bytes.h"
#include "train/state/state_transfer.h"

namespace evermoe {
namespace {

Fingerprint fingerprint_of(const std::array<std::vector<std::byte>, kStatePartCount>& parts) {
  FingerprintStream stream;
  for (const std::vector<std::byte>& part : parts) stream.update(part);
  return stream.finish();
}

}  // namespace

std::shared_ptr<StateImages::Image> StateImages::take_image(const std::string& operator_name) {
  const auto spare = spare_.find(operator_name);
  if (spare == spare_.end()) return std::make_shared<Image>();
  std::shared_ptr<Image> image = std::move(spare->second);
  spare_.erase(spare);
  // A save that was given up may still be written from it.
  return image.use_count() == 1 ? image : std::make_shared<Image>();
}

void StateImages::set_aside(Images& images) {
  for (auto& [name, image] : std::exchange(images, {})) spare_[name] = std::move(image);
}

std::shared_ptr<StateImages::Image> StateImages::image_of(OperatorState& state) {
  std::shared_ptr<Image> image = take_image(state.spec().name);
  for (const StatePart part : kStateParts) {
    const HostReadable from(part_of(state, part));
    std::vector<std::byte>& into = image->parts[static_cast<size_t>(part)];
    into.resize(from.bytes().size());
    std::memcpy(into.data(), from.bytes().data(), into.size());
  }
  image->bytes = fingerprint_of(image->parts);
  image->compute = fingerprint(HostReadable(state.shard_compute()).bytes());
  return image;
}

void StateImages::copy(const std::vector<OperatorState*>& states) {
  set_aside(waiting_);
  for (OperatorState* const state : states) waiting_[state->spec().name] = image_of(*state);
}

void StateImages::drop_waiting() { set_aside(waiting_); }

void StateImages::begin() {
  CHECK(under_way_.empty()) << under_way_.begin()->first;
  under_way_ = std::exchange(waiting_, {});
}

void StateImages::discard() { set_aside(under_way_); }

void StateImages::commit() {
  for (auto& [name, image] : std::exchange(under_way_, {})) {
    std::shared_ptr<Image>& held = committed_[name];
    if (held != nullptr) spare_[name] = std::move(held);
    held = std::move(image);
  }
}

void StateImages::clear() {
  committed_.clear();
  under_way_.clear();
  waiting_.clear();
  spare_.clear();
}

bool StateImages::is_good(const std::string& operator_name) const {
  const auto found = committed_.find(operator_name);
  return found != committed_.end() && fingerprint_of(found->second->parts) == found->second->bytes;
}

void StateImages::restore(OperatorState& state) const {
  const Image& image = *committed_.at(state.spec().name);
  for (const StatePart part : kStateParts) {
    const std::vector<std::byte>& from = image.parts[static_cast<size_t>(part)];
    HostWritable into(part_of(state, part));
    CHECK(into.bytes().size() == from.size()) << state.spec().name;
    std::memcpy(into.bytes().data(), from.data(), from.size());
    into.commit();
  }
}

std::vector<ShardSource> StateImages::sources(const std::vector<OperatorState*>& states) const {
  std::vector<ShardSource> sources;
  for (const OperatorState* state : states) {
    const std::shared_ptr<const Image> image = under_way_.at(state->spec().name);
    sources.push_back({.operator_name = state->spec().name,
                       .flat_size = state->spec().flat_size,
                       .range = state->shard(),
                       .copy =
                           [image](StatePart part, std::span<std::byte> into) {
                             const std::vector<std::byte>& from =
                                 image->parts[static_cast<size_t>(part)];
                             CHECK(from.size() == into.size());
                             std::memcpy(into.data(), from.data(), into.size());
                           },
                       .compute_fingerprint = [image] { return image->compute; }});
  }
  return sources;
}

int64_t StateImages::bytes() const {
  int64_t total = 0;
  for (const Images* images : {&committed_, &under_way_, &waiting_, &spare_}) {
    for (const auto& [name, image] : *images) {
      for (const std::vector<std::byte>& part : image->parts)
        total += static_cast<int64_t>(part.size());
    }
  }
  return total;
}

}  // namespace evermoe
