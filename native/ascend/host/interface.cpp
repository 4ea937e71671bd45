// The C interface of hajax/abi/ascend.h. No exception leaves it: every entry turns one into a status and a message.
#include <atomic>
#include <exception>
#include <new>
#include <string>

#include "hajax/abi/ascend.h"
#include "native/ascend/host/prepared.h"

#ifndef HAJAX_ABI_DIGEST
#error "the build defines HAJAX_ABI_DIGEST, the SHA-256 of hajax/abi"
#endif

namespace host = hajax::ascend::host;
using host::acl;
using host::Failure;

struct hj_ascend_plan {
  std::shared_ptr<const host::Plan> plan;
};

struct hj_ascend_call {
  host::Call call;
};

namespace {

constexpr aclError kInitialised = 100002;  // by a framework in this process, or by an earlier call
constexpr double kMicrosecondsPerMillisecond = 1e3;

std::atomic<int64_t> openings{0};  // of devices, less closings

std::string& last_error() {
  thread_local std::string text;
  return text;
}

// body() returns a Failure.
template <typename Body>
int32_t guarded(const Body& body) noexcept {
  try {
    const Failure failure = body();
    if (failure.failed()) last_error() = failure.text;
    return failure.status;
  } catch (const std::exception& error) {
    try {
      last_error() = error.what();
    } catch (...) {  // out of memory even for the message
    }
  } catch (...) {
  }
  return host::kStatus_internal;
}

Failure need(const void* pointer, const char* name) {
  return pointer == nullptr ? host::bad_call(name, "an address", "null") : Failure{};
}

aclrtStream stream_of(uint64_t stream) { return reinterpret_cast<aclrtStream>(static_cast<uintptr_t>(stream)); }
uint64_t number_of(const void* handle) { return static_cast<uint64_t>(reinterpret_cast<uintptr_t>(handle)); }
void* pointer_of(uint64_t address) { return reinterpret_cast<void*>(static_cast<uintptr_t>(address)); }

Failure copy(void* to, const void* from, int64_t bytes, aclrtMemcpyKind kind) {
  if (bytes < 0) return host::bad_call("bytes", "0 or more", bytes);
  if (bytes == 0) return {};
  if (Failure f = need(from, "from"); f.failed()) return f;
  if (Failure f = need(to, "to"); f.failed()) return f;
  const auto size = static_cast<size_t>(bytes);
  return acl("aclrtMemcpy", aclrtMemcpy(to, size, from, size, kind));
}

// An error of the stream itself comes first: what was kept may be its consequence.
Failure synchronize(aclrtStream stream) {
  const Failure own = acl("aclrtSynchronizeStream", aclrtSynchronizeStream(stream), host::kStatus_stream_error);
  const Failure kept = host::take_kept();
  return own.failed() ? own : kept;
}

}  // namespace

const char* hajax_ascend_abi_digest() { return HAJAX_ABI_DIGEST; }

const char* hajax_ascend_last_error() { return last_error().c_str(); }

int32_t hajax_ascend_device_open(int32_t device) {
  return guarded([&] {
    const aclError code = aclInit(nullptr);
    if (code == kInitialised) {
      aclGetRecentErrMsg();
    } else if (Failure f = acl("aclInit", code); f.failed()) {
      return f;
    }
    Failure f = acl("aclrtSetDevice", aclrtSetDevice(device));
    if (!f.failed()) ++openings;
    return f;
  });
}

int32_t hajax_ascend_device_close(int32_t device) {
  return guarded([&] {
    if (Failure f = acl("aclrtResetDevice", aclrtResetDevice(device)); f.failed()) return f;
    if (--openings == 0) host::reset();  // contexts are gone, and their addresses may come again
    return Failure{};
  });
}

int32_t hajax_ascend_reset() {
  return guarded([] {
    host::reset();
    openings = 0;
    return acl("aclFinalize", aclFinalize());
  });
}

const char* hajax_ascend_soc_name() {
  const char* name = aclrtGetSocName();
  if (name == nullptr) guarded([] { return acl("aclrtGetSocName", -1); });
  return name;
}

int32_t hajax_ascend_cores(int32_t* cores) {
  return guarded([&] {
    if (Failure f = need(cores, "cores"); f.failed()) return f;
    int32_t device = 0;
    int64_t count = 0;
    if (Failure f = acl("aclrtGetDevice", aclrtGetDevice(&device)); f.failed()) return f;
    const Failure f = acl("aclGetDeviceCapability",
                          aclGetDeviceCapability(static_cast<uint32_t>(device), ACL_DEVICE_INFO_AI_CORE_NUM, &count));
    *cores = static_cast<int32_t>(count);
    return f;
  });
}

int32_t hajax_ascend_memory(int64_t* free_bytes, int64_t* total_bytes) {
  return guarded([&] {
    if (Failure f = need(free_bytes, "free_bytes"); f.failed()) return f;
    if (Failure f = need(total_bytes, "total_bytes"); f.failed()) return f;
    size_t free = 0;
    size_t total = 0;
    // A chip has one of the two kinds; the other one fails, or has nothing.
    Failure f;
    for (const aclrtMemAttr kind : {ACL_HBM_MEM, ACL_DDR_MEM}) {
      f = acl("aclrtGetMemInfo", aclrtGetMemInfo(kind, &free, &total));
      if (!f.failed() && total > 0) break;
    }
    *free_bytes = static_cast<int64_t>(free);
    *total_bytes = static_cast<int64_t>(total);
    return f;
  });
}

int32_t hajax_ascend_allocate(int64_t bytes, uint64_t* address) {
  return guarded([&] {
    if (Failure f = need(address, "address"); f.failed()) return f;
    if (bytes < 0) return host::bad_call("bytes", "0 or more", bytes);
    void* made = nullptr;
    const auto size = static_cast<size_t>(host::Memory::room(bytes));
    const Failure f = acl("aclrtMalloc", aclrtMalloc(&made, size, ACL_MEM_MALLOC_HUGE_FIRST));
    *address = number_of(made);
    return f;
  });
}

int32_t hajax_ascend_free(uint64_t address) {
  return guarded([&] { return acl("aclrtFree", aclrtFree(pointer_of(address))); });
}

int32_t hajax_ascend_write(uint64_t address, const void* from, int64_t bytes) {
  return guarded([&] { return copy(pointer_of(address), from, bytes, ACL_MEMCPY_HOST_TO_DEVICE); });
}

int32_t hajax_ascend_read(uint64_t address, void* to, int64_t bytes) {
  return guarded([&] { return copy(to, pointer_of(address), bytes, ACL_MEMCPY_DEVICE_TO_HOST); });
}

int32_t hajax_ascend_stream_open(uint64_t* stream) {
  return guarded([&] {
    if (Failure f = need(stream, "stream"); f.failed()) return f;
    aclrtStream made = nullptr;
    const Failure f = acl("aclrtCreateStream", aclrtCreateStream(&made));
    *stream = number_of(made);
    return f;
  });
}

int32_t hajax_ascend_stream_close(uint64_t stream) {
  return guarded(
      [&] { return acl("aclrtDestroyStream", aclrtDestroyStream(stream_of(stream)), host::kStatus_stream_error); });
}

int32_t hajax_ascend_synchronize(uint64_t stream) {
  return guarded([&] { return synchronize(stream_of(stream)); });
}

int32_t hajax_ascend_event_open(uint64_t* event) {
  return guarded([&] {
    if (Failure f = need(event, "event"); f.failed()) return f;
    aclrtEvent made = nullptr;
    const Failure f = acl("aclrtCreateEvent", aclrtCreateEvent(&made));
    *event = number_of(made);
    return f;
  });
}

int32_t hajax_ascend_event_close(uint64_t event) {
  return guarded([&] { return acl("aclrtDestroyEvent", aclrtDestroyEvent(pointer_of(event))); });
}

int32_t hajax_ascend_event_record(uint64_t event, uint64_t stream) {
  return guarded([&] { return acl("aclrtRecordEvent", aclrtRecordEvent(pointer_of(event), stream_of(stream))); });
}

int32_t hajax_ascend_event_elapsed(uint64_t from, uint64_t to, double* microseconds) {
  return guarded([&] {
    if (Failure f = need(microseconds, "microseconds"); f.failed()) return f;
    float milliseconds = 0;
    const Failure f =
        acl("aclrtEventElapsedTime", aclrtEventElapsedTime(&milliseconds, pointer_of(from), pointer_of(to)));
    *microseconds = double{milliseconds} * kMicrosecondsPerMillisecond;
    return f;
  });
}

int32_t hajax_ascend_plan_open(const hj_target* chip, const void* plan, int64_t plan_bytes, hj_ascend_plan** opened) {
  return guarded([&] {
    if (Failure f = need(chip, "chip"); f.failed()) return f;
    if (Failure f = need(opened, "opened"); f.failed()) return f;
    *opened = nullptr;
    auto made = std::make_shared<host::Plan>();
    if (Failure f = made->open(host::chip_of(*chip), plan, plan_bytes); f.failed()) return f;
    *opened = new hj_ascend_plan{std::move(made)};
    return Failure{};
  });
}

int32_t hajax_ascend_plan_close(hj_ascend_plan* plan) {
  return guarded([&] {
    delete plan;
    return Failure{};
  });
}

int32_t hajax_ascend_call_open(hj_ascend_plan* plan, int64_t batch, int64_t tokens, int64_t sequences,
                               const int32_t* bounds, float scale, hj_ascend_call** opened) {
  return guarded([&] {
    if (Failure f = need(plan, "plan"); f.failed()) return f;
    if (Failure f = need(opened, "opened"); f.failed()) return f;
    *opened = nullptr;
    hj_delta_call call = {};
    call.batch = batch;
    call.tokens = tokens;
    call.sequences = sequences;
    call.bounds = bounds;
    call.scale = scale;
    call.l2norm_eps = -1;
    auto made = std::make_unique<hj_ascend_call>();
    if (Failure f = made->call.open(plan->plan, call); f.failed()) return f;
    *opened = made.release();
    return Failure{};
  });
}

int32_t hajax_ascend_call_needs(const hj_ascend_call* call, hj_ascend_needs* needs) {
  return guarded([&] {
    if (Failure f = need(call, "call"); f.failed()) return f;
    if (Failure f = need(needs, "needs"); f.failed()) return f;
    *needs = call->call.needs();
    return Failure{};
  });
}

int32_t hajax_ascend_call_close(hj_ascend_call* call) {
  return guarded([&] {
    delete call;
    return Failure{};
  });
}

int32_t hajax_ascend_launch(const hj_ascend_call* call, const hj_ascend_arrays* arrays, uint64_t stream) {
  return guarded([&] {
    if (Failure f = need(call, "call"); f.failed()) return f;
    if (Failure f = need(arrays, "arrays"); f.failed()) return f;
    return call->call.launch(*arrays, stream_of(stream));
  });
}
