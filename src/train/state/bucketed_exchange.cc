#include "train/state/bucketed_exchange.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "tensor/host_bytes.h"

namespace evermoe {

// Operators of the same owners that are exchanged by one collective call. One alone is exchanged
// where it is; several are packed: what belongs to the first owner's shards, then to the second's.
class BucketedExchange::Bucket {
 public:
  Bucket(Kind kind, Communicator& owners) : kind_(kind), owners_(owners) {}

  void add(OperatorState* state, size_t position) {
    operators_.push_back(state);
    bytes_ += bytes_of(kind_, *state);
    last_ = position;
  }
  static int64_t bytes_of(Kind kind, const OperatorState& state) {
    return static_cast<int64_t>(whole_of(kind, state).nbytes());
  }
  int64_t bytes() const { return bytes_; }
  // Position of the operator that is ready last.
  size_t last() const { return last_; }

  void start() {
    const std::vector<int64_t> begins = shard_begins();
    all_ = operators_.size() == 1 ? whole_of(kind_, *operators_[0]) : pack(begins);
    kind_ == Kind::kReduceGradients ? start_reduction(begins) : start_gather(begins);
  }
  bool advance() { return pending_.advance(); }
  absl::Status finish(const OnExchanged& on_exchanged) {
    RETURN_IF_ERROR(annotate(pending_.wait(), name()));
    memory_->commit();
    if (operators_.size() > 1) unpack(shard_begins());
    if (kind_ == Kind::kGatherCompute) {
      for (OperatorState* const state : operators_) state->show_compute();
    }
    for (const OperatorState* state : operators_) on_exchanged(*state);
    return absl::OkStatus();
  }

 private:
  static const at::Tensor& whole_of(Kind kind, const OperatorState& state) {
    return kind == Kind::kReduceGradients ? state.gradient() : state.compute();
  }
  std::string name() const {
    const std::string what =
        kind_ == Kind::kReduceGradients ? "gradients of " : "compute weights of ";
    const std::string& first = operators_.front()->spec().name;
    return what +
           (operators_.size() == 1 ? first : first + " .. " + operators_.back()->spec().name);
  }

  // Of what is stored.
  at::ScalarType type() const { return whole_of(kind_, *operators_[0]).scalar_type(); }
  // Of each owner's part of `all_`, in its elements.
  std::vector<int64_t> shard_begins() const {
    std::vector<int64_t> begins{0};
    for (int owner = 0; owner < owners_.size(); ++owner) {
      begins.push_back(begins.back());
      for (const OperatorState* state : operators_)
        begins.back() += storage_size(type(), state->shard_of(owner).size());
    }
    return begins;
  }
  at::Tensor part_of(const std::vector<int64_t>& begins, int owner) const {
    const auto at = static_cast<size_t>(owner);
    return all_.narrow(0, begins[at], begins[at + 1] - begins[at]);
  }
  // Calls `visit(packed, shard)` with the two places of each operator's shard of this owner.
  template <typename Visit>
  void for_each_shard(const std::vector<int64_t>& begins, int owner, Visit visit) const {
    int64_t at = begins[static_cast<size_t>(owner)];
    for (const OperatorState* state : operators_) {
      const FlatRange shard = state->shard_of(owner);
      const int64_t size = storage_size(type(), shard.size());
      visit(all_.narrow(0, at, size), stored_range(whole_of(kind_, *state), shard));
      at += size;
    }
  }
  at::Tensor pack(const std::vector<int64_t>& begins) {
    all_ = at::empty({begins.back()}, whole_of(kind_, *operators_[0]).options());
    for (int owner = 0; owner < owners_.size(); ++owner) {
      if (kind_ == Kind::kGatherCompute && owner != owners_.index()) continue;
      for_each_shard(begins, owner,
                     [](at::Tensor packed, const at::Tensor& shard) { packed.copy_(shard); });
    }
    return all_;
  }
  void unpack(const std::vector<int64_t>& begins) {
    for (int owner = 0; owner < owners_.size(); ++owner) {
      const bool is_own = owner == owners_.index();
      if (is_own != (kind_ == Kind::kReduceGradients)) continue;
      for_each_shard(begins, owner,
                     [](const at::Tensor& packed, at::Tensor shard) { shard.copy_(packed); });
    }
  }

  void start_reduction(const std::vector<int64_t>& begins) {
    contribution_.emplace(all_);
    memory_.emplace(part_of(begins, owners_.index()));
    pending_ = all_.scalar_type() == at::kDouble ? reduce<double>(begins) : reduce<float>(begins);
  }
  template <typename T>
  PendingCollective reduce(const std::vector<int64_t>& begins) {
    return owners_.start_reduce_scatter<T>(contribution_->values<T>(), begins, memory_->values<T>(),
                                           ReduceOp::kSum);
  }
  void start_gather(std::vector<int64_t> begins) {
    for (int64_t& begin : begins) begin *= all_.element_size();
    memory_.emplace(all_, HostWritable::Contents::kLoaded);
    pending_ = owners_.start_all_gather(memory_->bytes(), begins);
  }

  const Kind kind_;
  Communicator& owners_;
  std::vector<OperatorState*> operators_;
  int64_t bytes_ = 0;
  size_t last_ = 0;
  // Under way:
  at::Tensor all_;
  std::optional<HostReadable> contribution_;
  std::optional<HostWritable> memory_;
  PendingCollective pending_;  // last: it lets go of what stands above
};

BucketedExchange::BucketedExchange(Kind kind, const std::vector<OperatorState*>& operators,
                                   const BucketLimits& limits, OnExchanged on_exchanged)
    : limits_(limits), on_exchanged_(std::move(on_exchanged)), operators_(operators.size()) {
  std::map<Communicator*, Bucket*> open;
  for (size_t i = 0; i < operators.size(); ++i) {
    OperatorState* const state = operators[i];
    Communicator& owners = state->owners();
    if (owners.size() == 1 || state->is_frozen()) continue;
    Bucket*& bucket = open[&owners];
    if (bucket == nullptr ||
        bucket->bytes() + Bucket::bytes_of(kind, *state) > limits.bucket_bytes) {
      waiting_.push_back(std::make_unique<Bucket>(kind, owners));
      bucket = waiting_.back().get();
    }
    bucket->add(state, i);
  }
  std::ranges::sort(waiting_, {}, [](const auto& bucket) { return bucket->last(); });
}

BucketedExchange::~BucketedExchange() = default;

void BucketedExchange::start_next() {
  in_flight_.push_back(std::move(waiting_.front()));
  waiting_.pop_front();
  bytes_in_flight_ += in_flight_.back()->bytes();
  in_flight_.back()->start();
}

void BucketedExchange::advance() {
  // In order, because what is behind an older bucket on a connection comes after it.
  while (!in_flight_.empty() && in_flight_.front()->advance()) finish_oldest();
  const auto has_room = [this] {
    return in_flight_.empty() ||
           bytes_in_flight_ + waiting_.front()->bytes() <= limits_.in_flight_bytes;
  };
  while (status_.ok() && !waiting_.empty() && waiting_.front()->last() < ready_ && has_room())
    start_next();
}

void BucketedExchange::finish_oldest() {
  bytes_in_flight_ -= in_flight_.front()->bytes();
  status_.Update(in_flight_.front()->finish(on_exchanged_));
  in_flight_.pop_front();
}

absl::Status BucketedExchange::finish() {
  CHECK(ready_ == operators_) << ready_ << " of " << operators_ << " operators are ready";
  while (status_.ok()) {
    advance();
    if (in_flight_.empty()) break;
    finish_oldest();
  }
  in_flight_.clear();
  return status_;
}

}  // namespace evermoe
