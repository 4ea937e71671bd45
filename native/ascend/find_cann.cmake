# ASCENDC_CMAKE, the file with the functions of CANN's toolkit below ASCEND_CANN_PACKAGE_PATH, or a false value.
find_file(ASCENDC_CMAKE ascendc.cmake NO_DEFAULT_PATH PATHS
  "${ASCEND_CANN_PACKAGE_PATH}/tools/tikcpp/ascendc_kernel_cmake"
  "${ASCEND_CANN_PACKAGE_PATH}/compiler/tikcpp/ascendc_kernel_cmake"
  "${ASCEND_CANN_PACKAGE_PATH}/ascendc_devkit/tikcpp/samples/cmake")
