# gpk_target_defaults(target [headers...]): language level, warnings, visibility, sanitizers,
# version; the headers are precompiled with GPK_FAST_BUILD.
find_package(Threads REQUIRED)

if(NOT MSVC)
  if(GPK_FAST_BUILD)
    set(CMAKE_CXX_FLAGS_RELEASE "-O1 -DNDEBUG")  # compiles in three quarters of the time
  else()
    set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
  endif()
  set(CMAKE_CXX_FLAGS_DEBUG "-O0 -g1 -D_GLIBCXX_ASSERTIONS")
endif()
if(GPK_SANITIZE)
  # Global, so that every object and every link line agrees.
  add_compile_options(-fsanitize=${GPK_SANITIZE} -fno-sanitize-recover=all
                      -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${GPK_SANITIZE})
endif()

function(gpk_target_defaults target)
  target_compile_features(${target} PUBLIC cxx_std_20)
  set_target_properties(${target} PROPERTIES
    CXX_EXTENSIONS OFF
    CXX_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON
    POSITION_INDEPENDENT_CODE ON)
  target_compile_definitions(${target} PRIVATE GPK_VERSION="${GPK_VERSION}")
  if(MSVC)
    target_compile_options(${target} PRIVATE
      $<$<COMPILE_LANGUAGE:CXX>:/W4 /utf-8 /permissive- /bigobj>)
    target_compile_definitions(${target} PRIVATE NOMINMAX WIN32_LEAN_AND_MEAN)
  else()
    target_compile_options(${target} PRIVATE
      $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wshadow>)
    if(GPK_FAST_BUILD)  # a local name of one file may shadow a constant of the next
      target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wno-shadow>)
    endif()
  endif()
  if(GPK_FAST_BUILD AND ARGN)
    target_precompile_headers(${target} PRIVATE ${ARGN})
  endif()
  if(GPK_WERROR)
    target_compile_options(${target} PRIVATE
      $<$<COMPILE_LANGUAGE:CXX>:$<IF:$<CXX_COMPILER_ID:MSVC>,/WX,-Werror>>)
  endif()
endfunction()
