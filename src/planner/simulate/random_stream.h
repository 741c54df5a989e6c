// Random numbers of simulated runs: the i-th number of a stream is a function of (seed, stream, i)
// alone.
//
// So a node's lifetimes do not depend on what the other nodes or the job do: two strategies
// simulated with one seed meet the same failures, and a run can be repeated from any point. The
// bits are Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
#pragma once

#include <array>
#include <cstdint>

namespace evermoe {

// The block cipher itself: 128 random bits of a counter under a key.
std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

// A value: a copy goes on independently from where the original was.
class RandomStream {
 public:
  RandomStream(uint64_t seed, uint64_t stream) : seed_(seed), stream_(stream) {}

  uint64_t bits();
  double uniform();  // in (0, 1), never an end
  // Uniform on 0 .. count - 1. REQUIRES: count >= 1.
  int below(int count);
  double exponential(double mean);
  // Mean `scale` times Gamma(1 + 1 / shape). REQUIRES: shape > 0.
  double weibull(double shape, double scale);
  double normal();
  // Mean `shape`, scale 1 (Marsaglia and Tsang 2000). REQUIRES: shape >= 1.
  double gamma(double shape);

  uint64_t drawn() const { return index_; }  // numbers so far

 private:
  uint64_t seed_;
  uint64_t stream_;
  uint64_t index_ = 0;
};

}  // namespace evermoe
