# What sanitizers and libraries are told when tests of an instrumented build run, and the programs that
# those start. ctest itself reads it, so that a test with an environment of its own keeps it.
if(EVERMOE_SANITIZE)
  set(sanitizer_environment ${CMAKE_BINARY_DIR}/generated/sanitizer_environment.cmake)
  file(CONFIGURE OUTPUT ${sanitizer_environment} @ONLY CONTENT [[
# The first report ends the process, as under the other two: that of one that is killed later would be lost.
set(ENV{TSAN_OPTIONS} "suppressions=@CMAKE_SOURCE_DIR@/tests/sanitizers/thread.txt:halt_on_error=1")
set(ENV{UBSAN_OPTIONS} "print_stacktrace=1")
# Per thread: frames that have ended are kept in up to 11 x 64 KiB instead of 11 x 1 MiB, freed memory in 64 KiB
# instead of 1 MiB. With the defaults the 4,096 threads of simulated_scale_test take more than 24 GB, so 5 GB.
set(ENV{ASAN_OPTIONS} "detect_stack_use_after_return=1:max_uar_stack_size_log=16:thread_local_quarantine_size_kb=64")
# UCX replaces madvise() otherwise, which the end of a thread calls when ThreadSanitizer has forgotten the thread
# already: a segmentation fault.
set(ENV{UCX_MEM_EVENTS} n)
set(ENV{UCX_HANDLE_ERRORS} none)
]])
  set_property(DIRECTORY ${CMAKE_SOURCE_DIR} APPEND PROPERTY TEST_INCLUDE_FILES ${sanitizer_environment})
endif()
