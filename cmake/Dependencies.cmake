# Finds what the project stands on. Everything but torch is a Debian package.
find_package(Threads REQUIRED)
find_package(absl REQUIRED)
find_package(GTest REQUIRED)
find_package(benchmark REQUIRED)
find_package(spdlog REQUIRED)
find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(UCX REQUIRED IMPORTED_TARGET ucx)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(TOMLPLUSPLUS REQUIRED IMPORTED_TARGET tomlplusplus)
pkg_check_modules(SENTENCEPIECE REQUIRED IMPORTED_TARGET sentencepiece)
pkg_check_modules(GRPCPP REQUIRED IMPORTED_TARGET grpc++)
pkg_check_modules(LIBCURL REQUIRED IMPORTED_TARGET libcurl)
pkg_check_modules(PUGIXML REQUIRED IMPORTED_TARGET pugixml)
pkg_check_modules(LIBCRYPTO REQUIRED IMPORTED_TARGET libcrypto)
pkg_check_modules(TCMALLOC REQUIRED IMPORTED_TARGET libtcmalloc_minimal)

find_program(EVERMOE_CCACHE ccache)
if(EVERMOE_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
      # Without these ccache refuses to cache a translation unit that uses a precompiled header.
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      # What a precompiled header says of macros is not in its preprocessed text, so only the files themselves tell
      # whether a cached one is still right.
      CCACHE_DEPEND=1
      # Paths below the source folder count as relative, so that a second clone finds what the first compiled.
      CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1
      ${EVERMOE_CCACHE})
endif()
find_program(EVERMOE_MOLD mold)
if(EVERMOE_MOLD)
  add_link_options(-fuse-ld=mold)
endif()

if(EVERMOE_SANITIZE)
  add_compile_options(-fsanitize=${EVERMOE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  if(NOT EVERMOE_SANITIZE STREQUAL "thread")
    # An index beyond the end of a vector, span or string is seen even where it stays inside its memory. Not under
    # `thread`: std::string is compiled into our programs then, gRPC's library calls it there, and what that library does
    # in two threads is reported.
    add_compile_definitions(_GLIBCXX_ASSERTIONS)
  endif()
  add_link_options(-fsanitize=${EVERMOE_SANITIZE})
endif()

if(EVERMOE_TORCH)
  include(Torch)
endif()
