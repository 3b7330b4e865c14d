# The build rules that every folder shares.

# Compile options of all our targets, and of nothing else.
add_library(orrery_options INTERFACE)
target_compile_features(orrery_options INTERFACE cxx_std_20)
set(CMAKE_CXX_EXTENSIONS OFF)
target_include_directories(orrery_options INTERFACE "${CMAKE_CURRENT_SOURCE_DIR}")
target_compile_options(
  orrery_options
  INTERFACE -Wall -Wextra -Wconversion -Wshadow -Wpedantic
            # The same bits on every compiler and build type: no fused multiply-add behind our back.
            -ffp-contract=off $<$<BOOL:${ORRERY_WERROR}>:-Werror>)

# orrery_precompile(target owner headers...): the headers that most files read are read once, by the target that owns
# them; the others take them from it. Sources still include what they use: the preset `fuzz` builds without.
function(orrery_precompile target owner)
  if(target STREQUAL owner)
    target_precompile_headers(${target} PRIVATE ${ARGN})
  else()
    target_precompile_headers(${target} REUSE_FROM ${owner})
  endif()
endfunction()

# orrery_cold(target): code whose speed nobody feels, as tests, readers and writers, is optimised little in releases:
# that saves a quarter of its build time.
function(orrery_cold target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
endfunction()

# The parts of the standard library, and of fmt, that most files include.
set(orrery_common_headers
    <algorithm> <array> <cstdint> <functional> <map> <memory> <optional> <set> <span> <string> <string_view> <tuple>
    <utility> <variant> <vector> <fmt/format.h>)

# orrery_library(NAME layer [COLD] DEPENDS layers... PRIVATE packages...): one library per layer, from the .cpp files of
# the calling folder and those below it.
function(orrery_library name)
  cmake_parse_arguments(arg "COLD" "" "DEPENDS;PRIVATE" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/*.cpp")
  add_library(orrery_${name} STATIC ${sources})
  add_library(orrery::${name} ALIAS orrery_${name})
  orrery_precompile(orrery_${name} orrery_base ${orrery_common_headers})
  if(arg_COLD)
    orrery_cold(orrery_${name})
  endif()
  list(TRANSFORM arg_DEPENDS PREPEND orrery::)
  target_link_libraries(orrery_${name} PUBLIC orrery_options ${arg_DEPENDS} PRIVATE ${arg_PRIVATE})
endfunction()
