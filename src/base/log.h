// Program log: one line to stderr with time, level and the process's name.
//
// The header has no formatting library in it, because torch ships its own fmt and the two must not
// meet in one translation unit: build the message with absl::StrCat or absl::StrFormat.
#pragma once

#include <string>

namespace evermoe {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

// Who is speaking in each line ("worker 1.0"), and the least level that is printed.
// Call once at start, before other threads log.
void configure_log(const std::string& speaker, LogLevel least);

void log_debug(const std::string& message);
void log_info(const std::string& message);
void log_warning(const std::string& message);
void log_error(const std::string& message);

}  // namespace evermoe
