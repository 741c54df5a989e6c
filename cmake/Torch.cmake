# Links libtorch straight from the pip wheel. The wheel's own CMake package is not used: it redefines
# protobuf targets and, in CUDA builds of the wheel, asks for a CUDA toolkit that no build of ours needs.
set(EVERMOE_PYTHON ${CMAKE_SOURCE_DIR}/.venv/bin/python CACHE FILEPATH "Python that has torch")
set(EVERMOE_TORCH_DIR "" CACHE PATH "The folder `torch` of an unpacked wheel; empty: that of EVERMOE_PYTHON")
if(NOT EVERMOE_TORCH_DIR)
  # Found, not imported: a CUDA wheel cannot be where its libraries are missing.
  execute_process(
    COMMAND ${EVERMOE_PYTHON} -c
      "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0], end='')"
    OUTPUT_VARIABLE EVERMOE_TORCH_FOLDER RESULT_VARIABLE torch_missing ERROR_QUIET)
  if(torch_missing)
    message(FATAL_ERROR "no PyTorch in ${EVERMOE_PYTHON}: run ./quickstart, or configure with -DEVERMOE_TORCH=OFF")
  endif()
else()
  set(EVERMOE_TORCH_FOLDER ${EVERMOE_TORCH_DIR})
endif()
file(STRINGS ${EVERMOE_TORCH_FOLDER}/version.py torch_version REGEX "^__version__ *= *'")
string(REGEX REPLACE "^__version__ *= *'(.*)'.*" "\\1" torch_version "${torch_version}")

add_library(evermoe_libtorch INTERFACE)
target_include_directories(evermoe_libtorch SYSTEM INTERFACE
  ${EVERMOE_TORCH_FOLDER}/include ${EVERMOE_TORCH_FOLDER}/include/torch/csrc/api/include)
# Linked whether or not anything calls them by name, and in this order:
# * the C++ library comes before libtorch, which has std::filesystem of an older compiler in it and shows it: PyTorch
#   2.11's is not that of our compiler, and a call of it ends in nowhere.
# * nothing calls libtorch_cuda: it registers its kernels where it is loaded. What it stands on (cuBLAS, cuDNN, ...) is
#   found by its own search path, or not at all on a machine that only builds.
set(CMAKE_LINK_LIBRARY_USING_always_needed "-Wl,--push-state,--no-as-needed" "<LINK_ITEM>" "-Wl,--pop-state")
set(CMAKE_LINK_LIBRARY_USING_always_needed_SUPPORTED TRUE)
set(torch_libraries ${EVERMOE_TORCH_FOLDER}/lib/libtorch.so ${EVERMOE_TORCH_FOLDER}/lib/libtorch_cpu.so
  ${EVERMOE_TORCH_FOLDER}/lib/libc10.so)
if(EXISTS ${EVERMOE_TORCH_FOLDER}/lib/libtorch_cuda.so)
  message(STATUS "PyTorch ${torch_version} with CUDA")
  list(APPEND torch_libraries ${EVERMOE_TORCH_FOLDER}/lib/libtorch_cuda.so ${EVERMOE_TORCH_FOLDER}/lib/libc10_cuda.so)
  target_link_options(evermoe_libtorch INTERFACE -Wl,--allow-shlib-undefined)
endif()
list(JOIN torch_libraries "," torch_libraries)
target_link_libraries(evermoe_libtorch INTERFACE "$<LINK_LIBRARY:always_needed,stdc++,${torch_libraries}>")
target_link_options(evermoe_libtorch INTERFACE -Wl,-rpath,${EVERMOE_TORCH_FOLDER}/lib)
# libtorch has oneDNN inside, but neither shows it nor offers BF16 products with FP32 results on CPUs.
find_library(EVERMOE_ONEDNN dnnl REQUIRED)
target_compile_definitions(evermoe_libtorch INTERFACE EVERMOE_TORCH_VERSION="${torch_version}")
