# Includes native/ascend in an install of the package: where CANN's toolkit is found, libhajax_ascend is built by a CMake of its
# own, as CANN's functions want it, and put beside the other libraries. HAJAX_BUILD_ASCEND is AUTO, ON or OFF.
set(HAJAX_BUILD_ASCEND "AUTO" CACHE STRING "Build libhajax_ascend with CANN: AUTO (where CANN is found; a failure is a warning), ON, OFF")
set(HAJAX_ASCEND_SOC "$ENV{SOC_VERSION}" CACHE STRING "The chip by CANN's name; empty: what native/ascend takes by default")
if(NOT HAJAX_BUILD_ASCEND)
  return()
endif()

set(ROOTS "$ENV{ASCEND_HOME_PATH}")
if(ROOTS STREQUAL "")
  set(ROOTS /usr/local/Ascend/ascend-toolkit/latest /usr/local/Ascend/cann "$ENV{HOME}/Ascend/ascend-toolkit/latest" "$ENV{HOME}/Ascend/cann")
endif()
unset(ASCENDC_CMAKE CACHE)
foreach(ROOT ${ROOTS})
  set(ASCEND_CANN_PACKAGE_PATH "${ROOT}")
  include("${CMAKE_CURRENT_LIST_DIR}/find_cann.cmake")
  if(ASCENDC_CMAKE)
    break()
  endif()
endforeach()
if(NOT ASCENDC_CMAKE)
  if(HAJAX_BUILD_ASCEND STREQUAL "AUTO")
    message(STATUS "hajax: no libhajax_ascend, as CANN's toolkit was not found in ${ROOTS} (for an Ascend NPU: install it, source its set_env.sh)")
    return()
  endif()
  message(FATAL_ERROR "HAJAX_BUILD_ASCEND: expected CANN's toolkit below ASCEND_HOME_PATH, got none in ${ROOTS}")
endif()
message(STATUS "hajax: libhajax_ascend with CANN in ${ASCEND_CANN_PACKAGE_PATH}")

set(BUILT "${CMAKE_BINARY_DIR}/ascend")
add_custom_target(hajax_ascend ALL
  COMMAND "${CMAKE_COMMAND}" "-DSOURCE=${CMAKE_CURRENT_LIST_DIR}" "-DBINARY=${BUILT}" "-DCANN=${ASCEND_CANN_PACKAGE_PATH}"
    "-DSOC=${HAJAX_ASCEND_SOC}" "-DGENERATOR=${CMAKE_GENERATOR}" "-DHOW=${HAJAX_BUILD_ASCEND}"
    -P "${CMAKE_CURRENT_LIST_DIR}/build.cmake"
  COMMENT "libhajax_ascend" USES_TERMINAL VERBATIM)
install(FILES "${BUILT}/libhajax_ascend.so" DESTINATION hajax/lib OPTIONAL)
