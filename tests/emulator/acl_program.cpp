// A host program as one writes it for a device: nothing in it says that the device is emulated. It launches `add` of
// kernels.cpp, linked in and from a library, and prints what it got.
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "acl/acl.h"
#ifdef ASCENDC_CPU_DEBUG
#include "tikicpulib.h"
extern "C" void add(uint8_t* x, uint8_t* y, uint32_t count, int32_t by);
#else
#include "aclrtlaunch_add.h"
#endif

#define CHECK(call)                                                            \
  do {                                                                         \
    const aclError code = (call);                                              \
    if (code != ACL_SUCCESS) {                                                 \
      const char* text = aclGetRecentErrMsg();                                 \
      printf("%s: %d: %s\n", #call, code, text == nullptr ? "no text" : text); \
      return 1;                                                                \
    }                                                                          \
  } while (0)

constexpr uint32_t kCount = 64;
constexpr size_t kBytes = kCount * sizeof(int32_t);

static void print_sum(const char* what, const int32_t* values) {
  int64_t sum = 0;
  for (uint32_t i = 0; i < kCount; ++i) sum += values[i];
  printf("%s %lld\n", what, static_cast<long long>(sum));
}

#ifdef ASCENDC_CPU_DEBUG
int main() {
  auto* x = static_cast<uint8_t*>(AscendC::GmAlloc(kBytes));
  auto* y = static_cast<uint8_t*>(AscendC::GmAlloc(kBytes));
  for (uint32_t i = 0; i < kCount; ++i) reinterpret_cast<int32_t*>(x)[i] = 1;
  AscendC::SetKernelMode(KernelMode::AIV_MODE);
  ICPU_RUN_KF(add, 4, x, y, kCount, 2);
  print_sum("cpu", reinterpret_cast<int32_t*>(y));
  AscendC::GmFree(x);
  AscendC::GmFree(y);
  fflush(stdout);
  ICPU_RUN_KF(add, 4, x, y, kCount, 2);  // freed: ends the program
  return 0;
}
#else
int main(int argc, char** argv) {
  CHECK(aclInit(nullptr));
  CHECK(aclrtSetDevice(0));
  aclrtStream stream = nullptr;
  CHECK(aclrtCreateStream(&stream));
  int32_t* host = nullptr;
  void* x = nullptr;
  void* y = nullptr;
  CHECK(aclrtMallocHost(reinterpret_cast<void**>(&host), kBytes));
  CHECK(aclrtMalloc(&x, kBytes, ACL_MEM_MALLOC_HUGE_FIRST));
  CHECK(aclrtMalloc(&y, kBytes, ACL_MEM_MALLOC_HUGE_FIRST));
  for (uint32_t i = 0; i < kCount; ++i) host[i] = static_cast<int32_t>(i);
  CHECK(aclrtMemcpy(x, kBytes, host, kBytes, ACL_MEMCPY_HOST_TO_DEVICE));

  CHECK(static_cast<aclError>(ACLRT_LAUNCH_KERNEL(add)(4, stream, x, y, kCount, 1)));
  CHECK(static_cast<aclError>(aclrtlaunch_add(4, stream, y, y, kCount, 1)));
  CHECK(aclrtSynchronizeStream(stream));
  CHECK(aclrtMemcpy(host, kBytes, y, kBytes, ACL_MEMCPY_DEVICE_TO_HOST));
  print_sum("linked", host);

  if (argc > 1) {
    aclrtBinHandle binary = nullptr;
    aclrtFuncHandle function = nullptr;
    CHECK(aclrtBinaryLoadFromFile(argv[1], nullptr, &binary));
    CHECK(aclrtBinaryGetFunction(binary, "add", &function));
    struct {
      void* x;
      void* y;
      uint64_t count;
      int64_t by;
    } arguments = {x, y, kCount, -3};
    CHECK(aclrtLaunchKernel(function, 2, &arguments, sizeof arguments, stream));
    CHECK(aclrtMemcpyAsync(host, kBytes, y, kBytes, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    CHECK(aclrtSynchronizeStream(stream));
    print_sum("library", host);
    CHECK(aclrtBinaryUnLoad(binary));
  }
  CHECK(static_cast<aclError>(ACLRT_LAUNCH_KERNEL(add)(4, stream, x, y, 2 * kCount, 1)));  // past the end
  CHECK(aclrtSynchronizeStream(stream));
  return 0;
}
#endif
