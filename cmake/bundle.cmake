# gpk_bundle: the packed PTX of all built-in kernels as bytes between the symbols
# gpk_bundle_begin and gpk_bundle_end. Empty when NVRTC is not available or GPK_BUNDLE is off.
set(gpk_bundle_file "${CMAKE_CURRENT_BINARY_DIR}/ptx_bundle.bin")
set(gpk_bundle_tool "${CMAKE_CURRENT_SOURCE_DIR}/tools/make_bundle.cpp")

if(GPK_BUNDLE AND EXISTS "${gpk_bundle_tool}")
  add_executable(gpk_make_bundle "${gpk_bundle_tool}")
  gpk_target_defaults(gpk_make_bundle)
  target_link_libraries(gpk_make_bundle PRIVATE gpk)

  # Where pip installs the NVRTC wheel of the Python that runs this build.
  execute_process(
    COMMAND "${Python_EXECUTABLE}" "${PROJECT_SOURCE_DIR}/scripts/bundle_roots.py"
    OUTPUT_VARIABLE gpk_bundle_roots OUTPUT_STRIP_TRAILING_WHITESPACE
    COMMAND_ERROR_IS_FATAL ANY)
  set(gpk_bundle_args "")
  set(gpk_nvrtc_globs "")
  foreach(root IN LISTS gpk_bundle_roots)
    list(APPEND gpk_bundle_args --package-root "${root}")
    list(APPEND gpk_nvrtc_globs "${root}/nvidia/*/lib/libnvrtc.so*" "${root}/nvidia/*/bin/nvrtc*.dll")
  endforeach()
  if(GPK_REQUIRE_BUNDLE)
    list(APPEND gpk_bundle_args --require)
  endif()
  if(GPK_BUNDLE_EVERY GREATER 1)
    list(APPEND gpk_bundle_args --every ${GPK_BUNDLE_EVERY})
  endif()
  # Installing another NVRTC rebuilds the bundle.
  set(gpk_nvrtc_files "")
  if(gpk_nvrtc_globs)
    file(GLOB gpk_nvrtc_files CONFIGURE_DEPENDS ${gpk_nvrtc_globs})
  endif()
  add_custom_command(
    OUTPUT "${gpk_bundle_file}"
    COMMAND gpk_make_bundle "${gpk_bundle_file}" ${gpk_bundle_args}
    DEPENDS gpk_make_bundle ${gpk_nvrtc_files}
    COMMENT "Making the PTX bundle"
    VERBATIM)
else()
  if(GPK_REQUIRE_BUNDLE)
    message(FATAL_ERROR "GPK_REQUIRE_BUNDLE is on, but NVRTC is not available")
  endif()
  message(STATUS "PTX bundle: left empty")
  # A file of its own: an empty bundle that is newer would pass for one that is up to date.
  set(gpk_bundle_file "${CMAKE_CURRENT_BINARY_DIR}/no_bundle.bin")
  if(NOT EXISTS "${gpk_bundle_file}")
    file(WRITE "${gpk_bundle_file}" "")
  endif()
endif()

if(MSVC)
  set(gpk_bundle_source "${CMAKE_CURRENT_BINARY_DIR}/bundle.cpp")
  set(gpk_embed_bundle "${PROJECT_SOURCE_DIR}/scripts/embed_bundle.py")
  add_custom_command(
    OUTPUT "${gpk_bundle_source}"
    COMMAND Python::Interpreter "${gpk_embed_bundle}" "${gpk_bundle_file}" "${gpk_bundle_source}"
    DEPENDS "${gpk_embed_bundle}" "${gpk_bundle_file}"
    VERBATIM)
else()
  enable_language(ASM)
  set(gpk_bundle_source "${CMAKE_CURRENT_BINARY_DIR}/bundle.S")
  configure_file("${PROJECT_SOURCE_DIR}/cmake/bundle.S.in" "${gpk_bundle_source}" @ONLY)
  set_source_files_properties("${gpk_bundle_source}" PROPERTIES OBJECT_DEPENDS "${gpk_bundle_file}")
endif()

add_library(gpk_bundle STATIC "${gpk_bundle_source}")
add_library(pygpukit::gpk_bundle ALIAS gpk_bundle)
set_target_properties(gpk_bundle PROPERTIES POSITION_INDEPENDENT_CODE ON LINKER_LANGUAGE CXX)
