// The part of libtorch that this project uses, and its precompiled header.
//
// Never include torch/torch.h: it takes 19 s and 1.5 GB to compile. Torch ships its own fmt,
// protobuf and pybind11 headers, so a file that includes this one must not include spdlog or gRPC.
#pragma once

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>

// Torch's logging defines a CHECK of its own; ours is meant everywhere in this project.
#undef CHECK
#include "base/check.h"
