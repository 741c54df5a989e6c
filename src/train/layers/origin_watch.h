// Where this rank makes a number that is not finite out of finite ones: there a machine, the
// samples or the model is at fault, and everywhere behind it one only passes on what has come.
//
// What a rank is given and what it makes of it is looked at where others are given it: at the
// stage's boundaries, at experts that compute for other lanes, and at gradients before they are
// added up. That costs a pass over activations at these places, and one over gradients. Reads only.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "experts/dispatch/dispatch_plan.h"
#include "model/model_shape.h"
#include "tensor/torch.h"
#include "train/layers/non_finite.h"

namespace evermoe {

// Threads: the training thread only.
class OriginWatch {
 public:
  // Told of such a place, before anybody else is given what was made there. May throw StatusError,
  // which ends the step.
  using Meet = std::function<void(const NonFinite&)>;
  OriginWatch(const ModelShape& shape, Meet meet);

  void begin_step() { has_received_ = false; }
  // From another rank. Whether it is finite; undefined is.
  bool receive(const at::Tensor& value);
  // What this rank has made of it in a micro-batch.
  void make(const at::Tensor& value, bool is_of_finite, NonFinitePhase phase, int32_t micro_batch,
            const std::string& operator_name);
  // Of experts that work for other lanes: `rows` of `outputs` and `inputs`, and later those of
  // their gradients. Both stay as they are. `micro_batch`: -1 where rows are of several.
  void watch_experts(const at::Tensor& inputs, const at::Tensor& outputs,
                     const std::vector<ExpertRows>& rows, const std::vector<std::string>& names,
                     int32_t micro_batch);
  // What this rank adds to an operator's gradient, if nothing that it was given was to blame.
  void add_gradient(const at::Tensor& gradient, const std::string& operator_name);

 private:
  void make_rows(const at::Tensor& from, const at::Tensor& made,
                 const std::vector<ExpertRows>& rows, const std::vector<std::string>& names,
                 NonFinitePhase phase, int32_t micro_batch);
  void meet(NonFinitePhase phase, int32_t micro_batch, const std::string& operator_name) const;

  std::map<std::string, int32_t> index_;  // of the whole model's operators
  const Meet meet_;
  bool has_received_ = false;  // something that was not finite, in this step
};

}  // namespace evermoe
