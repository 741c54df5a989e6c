// How much memory a process of this machine could still get.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace evermoe {

// The least of what the kernel calls available and what the process's control groups (version 1 or
// 2) and those above them leave; files in their page cache do not count as used, because the kernel
// gives them up. nullopt: nothing says. `root`: where /proc and /sys are looked for.
std::optional<int64_t> available_memory(const std::string& root = "");

}  // namespace evermoe
