// Compiled at run time for the GPU at hand (kernel_module.h), without any header, and in tests for
// the CPU, where a block's threads are threads (kernels_on_cpu_testing.h).
//
// Rows are BF16, eight of which a thread takes at a time. Sums are FP32 and in a fixed order.

#ifndef KERNEL
#define KERNEL extern "C" __global__
#endif

typedef unsigned short Bf16;
typedef long long Index;

constexpr int kPack = 8;
struct alignas(16) Packed {
  unsigned word[kPack / 2];
};
union Bits {
  unsigned bits;
  float value;
};

__device__ inline float as_float(unsigned bits) {
  Bits both;
  both.bits = bits;
  return both.value;
}

// To the nearest, ties to even.
__device__ inline unsigned as_bf16(float value) {
  Bits both;
  both.value = value;
  if ((both.bits & 0x7fffffffu) > 0x7f800000u) return 0x7fffu;  // not a number
  return (both.bits + 0x7fffu + (both.bits >> 16 & 1u)) >> 16;
}

__device__ inline void load(const Bf16* from, float* values) {
  const Packed packed = *reinterpret_cast<const Packed*>(from);
  for (int i = 0; i < kPack / 2; ++i) {
    values[2 * i] = as_float(packed.word[i] << 16);
    values[2 * i + 1] = as_float(packed.word[i] & 0xffff0000u);
  }
}

__device__ inline void store(Bf16* into, const float* values) {
  Packed packed;
  for (int i = 0; i < kPack / 2; ++i)
    packed.word[i] = as_bf16(values[2 * i]) | as_bf16(values[2 * i + 1]) << 16;
  *reinterpret_cast<Packed*>(into) = packed;
}

__device__ inline float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

// The sum over the block's threads, of which there is a power of two; the same on all of them.
__device__ inline float sum_of_block(float value) {
  __shared__ float partial[1024];
  __syncthreads();  // those of the sum before have been read
  partial[threadIdx.x] = value;
  __syncthreads();
  for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) partial[threadIdx.x] += partial[threadIdx.x + half];
    __syncthreads();
  }
  return partial[0];
}

// A block for each token.
KERNEL void mix(const Bf16* rows, const Index* row_of, const float* weights, Bf16* tokens,
                int width, int top_k) {
  const Index token = blockIdx.x;
  for (int column = threadIdx.x * kPack; column < width; column += blockDim.x * kPack) {
    float sum[kPack] = {};
#ifdef __CUDACC_RTC__
#pragma unroll 4  // loads of several rows at once
#endif
    for (int k = 0; k < top_k; ++k) {
      const Index choice = token * top_k + k;
      const float weight = weights != nullptr ? weights[choice] : 1.0f;
      float row[kPack];
      load(rows + row_of[choice] * width + column, row);
      for (int i = 0; i < kPack; ++i) sum[i] += weight * row[i];
    }
    store(tokens + token * width + column, sum);
  }
}

// A block for each row.
KERNEL void mix_backward(const Bf16* gradient, const Bf16* rows, const Index* choice_of_row,
                         const float* weights, Bf16* row_gradient, float* weight_gradient,
                         int width, int top_k) {
  const Index row = blockIdx.x, choice = choice_of_row[row], token = choice / top_k;
  const float weight = weights[choice];
  float dot = 0;
  for (int column = threadIdx.x * kPack; column < width; column += blockDim.x * kPack) {
    float of_token[kPack], output[kPack], scaled[kPack];
    load(gradient + token * width + column, of_token);
    load(rows + row * width + column, output);
    for (int i = 0; i < kPack; ++i) {
      scaled[i] = of_token[i] * weight;
      dot += of_token[i] * output[i];
    }
    store(row_gradient + row * width + column, scaled);
  }
  const float sum = sum_of_block(dot);
  if (threadIdx.x == 0) weight_gradient[choice] = sum;
}

// A thread for each eight of the results.
KERNEL void swiglu(const Bf16* up, Bf16* result, int width, Index count) {
  const Index first = (Index(blockIdx.x) * blockDim.x + threadIdx.x) * kPack;
  if (first >= count) return;
  const Bf16* const gates = up + first / width * 2 * width + first % width;
  float gate[kPack], value[kPack];
  load(gates, gate);
  load(gates + width, value);
  for (int i = 0; i < kPack; ++i) value[i] *= gate[i] * sigmoid(gate[i]);
  store(result + first, value);
}

KERNEL void swiglu_backward(const Bf16* gradient, const Bf16* up, Bf16* up_gradient, int width,
                            Index count) {
  const Index first = (Index(blockIdx.x) * blockDim.x + threadIdx.x) * kPack;
  if (first >= count) return;
  const Index gates = first / width * 2 * width + first % width;
  float of_result[kPack], gate[kPack], value[kPack], of_gate[kPack], of_value[kPack];
  load(gradient + first, of_result);
  load(up + gates, gate);
  load(up + gates + width, value);
  for (int i = 0; i < kPack; ++i) {
    const float open = sigmoid(gate[i]);
    of_gate[i] = of_result[i] * value[i] * open * (1.0f + gate[i] * (1.0f - open));
    of_value[i] = of_result[i] * gate[i] * open;
  }
  store(up_gradient + gates, of_gate);
  store(up_gradient + gates + width, of_value);
}

// A block for each row.
KERNEL void rms_norm(const Bf16* x, const Bf16* weight, Bf16* result, float* scale, int width,
                     float epsilon) {
  const Index begin = Index(blockIdx.x) * width;
  float squares = 0, row[kPack], factor[kPack];
  for (int column = threadIdx.x * kPack; column < width; column += blockDim.x * kPack) {
    load(x + begin + column, row);
    for (int i = 0; i < kPack; ++i) squares += row[i] * row[i];
  }
  const float by = 1.0f / sqrtf(sum_of_block(squares) / width + epsilon);
  if (threadIdx.x == 0) scale[blockIdx.x] = by;
  for (int column = threadIdx.x * kPack; column < width; column += blockDim.x * kPack) {
    load(x + begin + column, row);
    load(weight + column, factor);
    for (int i = 0; i < kPack; ++i) row[i] *= by * factor[i];
    store(result + begin + column, row);
  }
}

KERNEL void rms_norm_backward(const Bf16* gradient, const Bf16* x, const float* scale,
                              const Bf16* weight, Bf16* x_gradient, int width) {
  const Index begin = Index(blockIdx.x) * width;
  const float by = scale[blockIdx.x];
  float along = 0, row[kPack], of_result[kPack], factor[kPack];
  for (int column = threadIdx.x * kPack; column < width; column += blockDim.x * kPack) {
    load(x + begin + column, row);
    load(gradient + begin + column, of_result);
    load(weight + column, factor);
    for (int i = 0; i < kPack; ++i) along += of_result[i] * factor[i] * (row[i] * by);
  }
  const float mean = sum_of_block(along) / width;
  for (int column = threadIdx.x * kPack; column < width; column += blockDim.x * kPack) {
    load(x + begin + column, row);
    load(gradient + begin + column, of_result);
    load(weight + column, factor);
    for (int i = 0; i < kPack; ++i) row[i] = (of_result[i] * factor[i] - row[i] * by * mean) * by;
    store(x_gradient + begin + column, row);
  }
}

// A block for each part of the rows, whose sums [blocks, width] are added afterwards.
KERNEL void rms_norm_weight_backward(const Bf16* gradient, const Bf16* x, const float* scale,
                                     float* partial, Index rows, int width) {
  const Index first = rows * blockIdx.x / gridDim.x, end = rows * (blockIdx.x + 1) / gridDim.x;
  for (int column = threadIdx.x * kPack; column < width; column += blockDim.x * kPack) {
    float sum[kPack] = {};
    for (Index row = first; row < end; ++row) {
      float value[kPack], of_result[kPack];
      load(x + row * width + column, value);
      load(gradient + row * width + column, of_result);
      for (int i = 0; i < kPack; ++i) sum[i] += of_result[i] * (value[i] * scale[row]);
    }
    for (int i = 0; i < kPack; ++i) partial[Index(blockIdx.x) * width + column + i] = sum[i];
  }
}

// Where the heads of a tensor [batch, length, heads, head_dim] lie, in elements.
struct HeadStrides {
  Index batch;
  Index token;
  Index head;
};

// A thread for each eight pairs. `half` is head_dim / 2, `direction` 1 or -1.
KERNEL void rotate(const Bf16* x, HeadStrides of_x, Bf16* result, HeadStrides of_result,
                   const float* cosine, const float* sine, int length, int heads, int half,
                   float direction, Index count) {
  const Index first = (Index(blockIdx.x) * blockDim.x + threadIdx.x) * kPack;
  if (first >= count) return;
  const Index pair = first % half, head = first / half % heads,
              token = first / half / heads % length, batch = first / half / heads / length;
  const Bf16* const from = x + batch * of_x.batch + token * of_x.token + head * of_x.head + pair;
  Bf16* const into =
      result + batch * of_result.batch + token * of_result.token + head * of_result.head + pair;
  float low[kPack], high[kPack], turned_low[kPack], turned_high[kPack];
  load(from, low);
  load(from + half, high);
  for (int i = 0; i < kPack; ++i) {
    const float c = cosine[token * half + pair + i], s = direction * sine[token * half + pair + i];
    turned_low[i] = low[i] * c - high[i] * s;
    turned_high[i] = high[i] * c + low[i] * s;
  }
  store(into, turned_low);
  store(into + half, turned_high);
}
