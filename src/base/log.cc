#include "base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

namespace evermoe {
namespace {

spdlog::logger& logger() {
  static const std::shared_ptr<spdlog::logger> instance = [] {
    auto created = std::make_shared<spdlog::logger>(
        "evermoe", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
    created->set_pattern("%H:%M:%S.%e %^%l%$ %v");
    return created;
  }();
  return *instance;
}

}  // namespace

void configure_log(const std::string& speaker, LogLevel least) {
  constexpr spdlog::level::level_enum kLevels[] = {spdlog::level::debug, spdlog::level::info,
                                                   spdlog::level::warn, spdlog::level::err};
  logger().set_pattern("%H:%M:%S.%e %^%l%$ [" + speaker + "] %v");
  logger().set_level(kLevels[static_cast<int>(least)]);
}

void log_debug(const std::string& message) { logger().debug("{}", message); }
void log_info(const std::string& message) { logger().info("{}", message); }
void log_warning(const std::string& message) { logger().warn("{}", message); }
void log_error(const std::string& message) { logger().error("{}", message); }

}  // namespace evermoe
