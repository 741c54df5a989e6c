#include "planner/simulate/run_spans.h"

namespace evermoe {

void RunSpans::add(RunSpan::Kind kind, double end_seconds, double trained_seconds) {
  if (spans_ == nullptr) return;
  const double begin = spans_->empty() ? 0 : spans_->back().end_seconds;
  if (end_seconds <= begin) return;
  if (!spans_->empty() && spans_->back().kind == kind) {
    spans_->back().end_seconds = end_seconds;
    trained_.back() += trained_seconds;
    return;
  }
  spans_->push_back({kind, begin, end_seconds});
  trained_.push_back(trained_seconds);
}

void RunSpans::lose(double trained_seconds) {
  if (spans_ == nullptr) return;
  for (size_t i = spans_->size(); i-- > 0 && trained_seconds > 0;) {
    RunSpan& span = (*spans_)[i];
    if (span.kind != RunSpan::Kind::kTraining) continue;
    const double trained = trained_[i];
    if (trained <= trained_seconds) {
      span.kind = RunSpan::Kind::kLost;
      trained_seconds -= trained;
      continue;
    }
    const double kept = trained - trained_seconds;
    const double cut =
        span.begin_seconds + (span.end_seconds - span.begin_seconds) * kept / trained;
    if (cut >= span.end_seconds) return;  // too little to be seen
    if (cut <= span.begin_seconds) {
      span.kind = RunSpan::Kind::kLost;
      return;
    }
    const RunSpan lost{RunSpan::Kind::kLost, cut, span.end_seconds};
    span.end_seconds = cut;
    trained_[i] = kept;
    spans_->insert(spans_->begin() + static_cast<std::ptrdiff_t>(i) + 1, lost);
    trained_.insert(trained_.begin() + static_cast<std::ptrdiff_t>(i) + 1, trained_seconds);
    return;
  }
}

}  // namespace evermoe
