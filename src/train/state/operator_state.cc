#include "train/state/operator_state.h"

#include <algorithm>

#include "base/error.h"
#include "model/initial_state.h"
#include "tensor/host_bytes.h"

namespace evermoe {

OperatorState::OperatorState(OperatorSpec spec, Communicator& owners, StateTypes types,
                             OperatorStorage storage)
    : spec_(std::move(spec)),
      owners_(&owners),
      shard_(shard_range(spec_.flat_size, owners.size(), owners.index())),
      active_{whole()} {
  const TrainTypes& stored = types.stored;
  const auto new_shard = [&](StatePart part) {
    return new_storage(type_of(stored.state, part), shard_.size(), types.device);
  };
  const auto or_new = [&](at::Tensor given, ElementType type) {
    return given.defined() ? std::move(given) : new_storage(type, spec_.flat_size, types.device);
  };
  compute_ = or_new(std::move(storage.compute), stored.compute);
  values_ = stored.compute == stored.activations
                ? compute_
                : new_storage(stored.activations, spec_.flat_size, types.device);
  gradient_ = or_new(std::move(storage.gradient), stored.sums);
  master_ = stored.is_master_compute() ? shard_compute() : new_shard(StatePart::kMaster);
  exp_avg_ = new_shard(StatePart::kExpAvg);
  exp_avg_sq_ = new_shard(StatePart::kExpAvgSq);
  for (const ParameterSpec& parameter : spec_.parameters) {
    parameters_.push_back(
        {.value = values_.narrow(0, parameter.offset, parameter.numel()).view(parameter.shape),
         .gradient = gradient_.narrow(0, parameter.offset, parameter.numel()).view(parameter.shape),
         .has_fp8_products = stored.compute == ElementType::kFp8});
  }
}

void OperatorState::set_owners(Communicator& owners) {
  CHECK(owners.size() == owners_->size() && owners.index() == owners_->index())
      << spec_.name << " has other owners";
  owners_ = &owners;
}

void OperatorState::keep_only_shard() {
  if (master_.is_alias_of(compute_)) master_ = master_.clone();
  parameters_.clear();
  deferral_.reset();
  compute_ = values_ = gradient_ = at::Tensor();
}

FlatRange OperatorState::in_shard(FlatRange range) const {
  const auto inside = [&](int64_t element) {
    return std::clamp<int64_t>(element - shard_.begin, 0, shard_.size());
  };
  return {inside(range.begin), inside(range.end)};
}

void OperatorState::set_active(std::vector<FlatRange> ranges) {
  active_ = std::move(ranges);
  for (Parameter& parameter : parameters_) parameter.is_frozen = is_frozen();
}

void OperatorState::defer_gradients(DeferredGradients& deferred) {
  if (deferral_ != nullptr) return;
  deferral_ = std::make_unique<OperatorDeferral>(deferred);
  for (Parameter& parameter : parameters_) parameter.deferred = deferral_.get();
}

bool OperatorState::has_parameter(const std::string& name) const {
  for (const ParameterSpec& parameter : spec_.parameters) {
    if (parameter.name == name) return true;
  }
  return false;
}

const Parameter& OperatorState::parameter(const std::string& name) const {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (spec_.parameters[i].name == name) return parameters_[i];
  }
  CHECK(false) << spec_.name << " has no parameter " << name;
  __builtin_unreachable();
}

void OperatorState::initialise(uint64_t seed) {
  at::Tensor host = at::empty({shard_.size()}, at::kFloat);
  fill_initial_weights(spec_, seed, shard_, host_values<float>(host));
  copy_stored(host, master_);
  exp_avg_.zero_();
  exp_avg_sq_.zero_();
}

std::vector<int64_t> OperatorState::shard_begins() const {
  std::vector<int64_t> begins;
  for (int i = 0; i < owners_->size(); ++i) {
    begins.push_back(shard_of(i).begin);
  }
  begins.push_back(spec_.flat_size);
  return begins;
}

void OperatorState::cast_master() { cast_masters({{this, whole()}}); }

void cast_masters(const std::vector<OperatorRange>& ranges) {
  std::vector<at::Tensor> from, into;
  for (const auto& [state, range] : ranges) {
    const FlatRange own = state->in_shard(range);
    const at::Tensor master = stored_range(state->master(), own),
                     compute = stored_range(state->shard_compute(), own);
    if (own.size() == 0 || master.is_alias_of(compute)) continue;
    if (master.scalar_type() == at::kByte || compute.scalar_type() == at::kByte) {
      copy_stored(master, compute);  // blocks of FP8
    } else {
      from.push_back(master);
      into.push_back(compute);
    }
  }
  if (!into.empty()) at::_foreach_copy_(into, from);
}

void OperatorState::show_compute() {
  if (!values_.is_alias_of(compute_)) copy_stored(compute_, values_);
}

absl::Status OperatorState::gather_compute() {
  absl::Status status;
  if (owners_->size() > 1) {
    std::vector<int64_t> begins = shard_begins();
    for (int64_t& begin : begins)
      begin = storage_size(compute_.scalar_type(), begin) * compute_.element_size();
    HostWritable all(compute_, HostWritable::Contents::kLoaded);
    status = owners_->all_gather(all.bytes(), begins);
    all.commit();
  }
  show_compute();
  return annotate(status, "weights of " + spec_.name);
}

}  // namespace evermoe
