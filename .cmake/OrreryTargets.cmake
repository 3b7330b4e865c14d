# The build rules that every folder shares.

# Compile options of all our targets, and of nothing else.
add_library(orrery_options INTERFACE)
target_compile_features(orrery_options INTERFACE cxx_std_20)
target_include_directories(orrery_options INTERFACE "${CMAKE_CURRENT_SOURCE_DIR}")
target_compile_options(
  orrery_options
  INTERFACE -Wall -Wextra -Wconversion -Wshadow -Wpedantic
            # The same bits on every compiler and build type: no fused multiply-add behind our back.
            -ffp-contract=off $<$<BOOL:${ORRERY_WERROR}>:-Werror>)

# orrery_library(NAME layer DEPENDS layers... PRIVATE packages...): one library per layer, from the .cpp files of the
# calling folder and those below it.
function(orrery_library name)
  cmake_parse_arguments(arg "" "" "DEPENDS;PRIVATE" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/*.cpp")
  add_library(orrery_${name} STATIC ${sources})
  add_library(orrery::${name} ALIAS orrery_${name})
  set_target_properties(orrery_${name} PROPERTIES CXX_EXTENSIONS OFF)
  list(TRANSFORM arg_DEPENDS PREPEND orrery::)
  target_link_libraries(orrery_${name} PUBLIC orrery_options ${arg_DEPENDS} PRIVATE ${arg_PRIVATE})
endfunction()
