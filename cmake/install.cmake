# `cmake --install <build> --component cpp`: headers, libraries and find_package(pygpukit).
include(CMakePackageConfigHelpers)
set(gpk_cmake_dir "${CMAKE_INSTALL_LIBDIR}/cmake/pygpukit")

install(TARGETS gpk gpk_bundle EXPORT pygpukitTargets
  ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT cpp)
install(EXPORT pygpukitTargets NAMESPACE pygpukit::
  DESTINATION "${gpk_cmake_dir}" COMPONENT cpp)

if(TARGET pygpukit_sim)
  install(TARGETS pygpukit_sim LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT cpp)
endif()
install(FILES native/gpk.h DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/gpk" COMPONENT cpp OPTIONAL)
foreach(folder IN ITEMS base core runtime device jit plan ops llm)
  if(IS_DIRECTORY "${PROJECT_SOURCE_DIR}/native/${folder}")
    install(DIRECTORY native/${folder} DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/gpk" COMPONENT cpp
      FILES_MATCHING PATTERN "*.h" PATTERN "*.def")
  endif()
endforeach()
install(DIRECTORY native/kernels/args DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/gpk/kernels"
  COMPONENT cpp FILES_MATCHING PATTERN "*.h")

configure_package_config_file(cmake/pygpukitConfig.cmake.in
  "${PROJECT_BINARY_DIR}/pygpukitConfig.cmake" INSTALL_DESTINATION "${gpk_cmake_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/pygpukitConfigVersion.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/pygpukitConfig.cmake"
              "${PROJECT_BINARY_DIR}/pygpukitConfigVersion.cmake"
  DESTINATION "${gpk_cmake_dir}" COMPONENT cpp)
