// Memory and copies.
#include <stdlib.h>
#include <string.h>

#include <memory>
#include <utility>

#include "native/emulator/acl/runtime.h"

using namespace hajax::emulator::acl;

namespace {

constexpr size_t kHostAlignment = 64;
constexpr size_t kMost = size_t{1} << 48;  // sizes are int64_t from here on

int64_t checked_size(size_t size, const char* name) {
  if (size == 0 || size > kMost) {
    throw Failure{ACL_ERROR_INVALID_PARAM,
                  std::string(name) + ": expected a size of 1 byte or more, got " + std::to_string(size)};
  }
  return static_cast<int64_t>(size);
}

void check_room(size_t room, int64_t bytes, const char* name) {
  if (room < static_cast<size_t>(bytes)) {
    throw Failure{ACL_ERROR_RT_PARAM_INVALID, std::string(name) + ": expected at least the " + std::to_string(bytes) +
                                                  " bytes that are to be written, got " + std::to_string(room)};
  }
}

void check_device_range(const Runtime& runtime, const void* pointer, int64_t bytes, const char* name) {
  std::string why;
  if (!runtime.device->holds(pointer, bytes, &why)) {
    throw Failure{ACL_ERROR_RT_PARAM_INVALID, std::string(name) + ": expected " + std::to_string(bytes) +
                                                  " bytes of device memory at " + hex(pointer) + ", which is " + why};
  }
}

// Null when the host address is not inside of pinned memory.
const std::pair<const uint8_t* const, size_t>* pinned_block(const Runtime& runtime, const void* pointer) {
  const auto* byte = static_cast<const uint8_t*>(pointer);
  auto after = runtime.pinned.upper_bound(byte);
  if (after == runtime.pinned.begin()) return nullptr;
  --after;
  return byte < after->first + after->second ? &*after : nullptr;
}

void check_host_range(const Runtime& runtime, const void* pointer, int64_t bytes, const char* name) {
  if (runtime.device->gm().owns(pointer)) {
    throw Failure{ACL_ERROR_RT_PARAM_INVALID,
                  std::string(name) + ": the kind says host memory, " + hex(pointer) + " is the device's"};
  }
  const auto* block = pinned_block(runtime, pointer);
  if (block == nullptr) return;  // the program's own: only it knows how long that is
  const auto room = static_cast<int64_t>(block->first + block->second - static_cast<const uint8_t*>(pointer));
  if (bytes > room) {
    throw Failure{ACL_ERROR_RT_PARAM_INVALID, std::string(name) + ": expected " + std::to_string(bytes) +
                                                  " bytes, got " + std::to_string(room) +
                                                  " to the end of its aclrtMallocHost memory"};
  }
}

struct Copy {
  void* to;
  const void* from;
  int64_t bytes;
  bool to_device;
  bool from_device;
};

Copy checked_copy(const Runtime& runtime, void* dst, size_t room, const void* src, size_t count, aclrtMemcpyKind kind) {
  need(dst, "dst");
  need(src, "src");
  Copy copy{dst, src, checked_size(count, "count"), false, false};
  check_room(room, copy.bytes, "destMax");
  const int number = static_cast<int>(kind);
  if (number < ACL_MEMCPY_HOST_TO_HOST || number > ACL_MEMCPY_DEFAULT) {
    throw Failure{ACL_ERROR_INVALID_PARAM,
                  "kind: expected an aclrtMemcpyKind of 0 to 4, got " + std::to_string(number)};
  }
  const hajax::emulator::Gm& gm = runtime.device->gm();
  const bool any = kind == ACL_MEMCPY_DEFAULT;
  copy.to_device = any ? gm.owns(dst) : kind == ACL_MEMCPY_HOST_TO_DEVICE || kind == ACL_MEMCPY_DEVICE_TO_DEVICE;
  copy.from_device = any ? gm.owns(src) : kind == ACL_MEMCPY_DEVICE_TO_HOST || kind == ACL_MEMCPY_DEVICE_TO_DEVICE;
  (copy.to_device ? check_device_range : check_host_range)(runtime, dst, copy.bytes, "dst");
  (copy.from_device ? check_device_range : check_host_range)(runtime, src, copy.bytes, "src");
  return copy;
}

void carry_out(Runtime& runtime, const Copy& copy) {
  if (runtime.injection.hit(Site::memcpy)) throw Failure{ACL_ERROR_RT_INTERNAL_ERROR, "injected copy error"};
  if (copy.to_device && copy.from_device) {
    runtime.device->copy(copy.to, copy.from, copy.bytes);
  } else if (copy.to_device) {
    runtime.device->write(copy.to, copy.from, copy.bytes);
  } else if (copy.from_device) {
    runtime.device->read(copy.to, copy.from, copy.bytes);
  } else {
    memmove(copy.to, copy.from, static_cast<size_t>(copy.bytes));
  }
}

// When its turn comes, memory that was there at the call may be gone.
void recheck(const Runtime& runtime, const Copy& copy, bool pinned_to, bool pinned_from) {
  if (copy.to_device) check_device_range(runtime, copy.to, copy.bytes, "dst");
  if (copy.from_device) check_device_range(runtime, copy.from, copy.bytes, "src");
  if ((pinned_to && pinned_block(runtime, copy.to) == nullptr) ||
      (pinned_from && pinned_block(runtime, copy.from) == nullptr)) {
    throw Failure{ACL_ERROR_RT_PARAM_INVALID, "host memory of an asynchronous copy was freed before the copy ran"};
  }
}

void queue_copy(Runtime& runtime, const Copy& copy, Stream& stream) {
  const bool pinned_to = !copy.to_device && pinned_block(runtime, copy.to) != nullptr;
  const bool pinned_from = !copy.from_device && pinned_block(runtime, copy.from) != nullptr;
  if (!copy.to_device && !pinned_to) {
    // The program's own memory may be gone later: such a copy waits for its turn here. A failure before it stays for
    // the next wait.
    runtime.advance(stream, [] { return false; });
    carry_out(runtime, copy);
    return;
  }
  std::shared_ptr<uint8_t[]> staged;
  Copy later = copy;
  if (!copy.from_device && !pinned_from) {
    staged.reset(new uint8_t[static_cast<size_t>(copy.bytes)]);
    memcpy(staged.get(), copy.from, static_cast<size_t>(copy.bytes));
    later.from = staged.get();
  }
  stream.tasks.push_back({[&runtime, later, staged, pinned_to, pinned_from](Stream&) {
    recheck(runtime, later, pinned_to, pinned_from);
    carry_out(runtime, later);
  }});
}

aclError allocate(const char* function, void** devPtr, size_t size) {
  return entry(function, Needs::context, [&](Runtime& runtime) {
    need(devPtr, "devPtr");
    *devPtr = nullptr;
    const int64_t bytes = checked_size(size, "size");
    const bool injected = runtime.injection.hit(Site::malloc);
    *devPtr = injected ? nullptr : runtime.device->allocate(bytes);
    if (*devPtr == nullptr) {
      throw Failure{
          ACL_ERROR_RT_MEMORY_ALLOCATION,
          std::to_string(size) + " bytes: " + (injected ? "injected allocation failure" : "out of device memory")};
    }
  });
}

void fill(Runtime& runtime, void* to, int32_t value, int64_t bytes) {
  if (runtime.device->gm().owns(to)) {
    runtime.device->fill(to, value, bytes);
  } else {
    memset(to, value, static_cast<size_t>(bytes));
  }
}

int64_t checked_fill(const Runtime& runtime, void* to, size_t room, size_t count) {
  need(to, "devPtr");
  const int64_t bytes = checked_size(count, "count");
  check_room(room, bytes, "maxCount");
  (runtime.device->gm().owns(to) ? check_device_range : check_host_range)(runtime, to, bytes, "devPtr");
  return bytes;
}

}  // namespace

aclError aclrtMalloc(void** devPtr, size_t size, aclrtMemMallocPolicy) { return allocate("aclrtMalloc", devPtr, size); }
aclError aclrtMallocAlign32(void** devPtr, size_t size, aclrtMemMallocPolicy) {
  return allocate("aclrtMallocAlign32", devPtr, size);
}
aclError aclrtMallocCached(void** devPtr, size_t size, aclrtMemMallocPolicy) {
  return allocate("aclrtMallocCached", devPtr, size);
}

aclError aclrtFree(void* devPtr) {
  return entry("aclrtFree", Needs::context, [&](Runtime& runtime) {
    need(devPtr, "devPtr");
    if (!runtime.device->gm().release(devPtr)) {
      std::string why = "not device memory";
      if (runtime.device->holds(devPtr, 1, &why)) why = "not the start of its allocation";
      throw Failure{ACL_ERROR_RT_PARAM_INVALID, "devPtr: " + hex(devPtr) + " is " + why};
    }
  });
}

aclError aclrtMallocHost(void** hostPtr, size_t size) {
  return entry("aclrtMallocHost", Needs::context, [&](Runtime& runtime) {
    need(hostPtr, "hostPtr");
    *hostPtr = nullptr;
    checked_size(size, "size");
    void* memory = aligned_alloc(kHostAlignment, (size + kHostAlignment - 1) / kHostAlignment * kHostAlignment);
    if (memory == nullptr) throw Failure{ACL_ERROR_BAD_ALLOC, std::to_string(size) + " bytes: out of host memory"};
    runtime.pinned[static_cast<uint8_t*>(memory)] = size;
    *hostPtr = memory;
  });
}

aclError aclrtFreeHost(void* hostPtr) {
  return entry("aclrtFreeHost", Needs::device, [&](Runtime& runtime) {
    need(hostPtr, "hostPtr");
    const auto found = runtime.pinned.find(static_cast<uint8_t*>(hostPtr));
    if (found == runtime.pinned.end()) {
      throw Failure{ACL_ERROR_RT_PARAM_INVALID,
                    "hostPtr: " + hex(hostPtr) + " is no memory of aclrtMallocHost, or was freed"};
    }
    runtime.pinned.erase(found);
    free(hostPtr);
  });
}

aclError aclrtMemset(void* devPtr, size_t maxCount, int32_t value, size_t count) {
  return entry("aclrtMemset", Needs::context,
               [&](Runtime& runtime) { fill(runtime, devPtr, value, checked_fill(runtime, devPtr, maxCount, count)); });
}

aclError aclrtMemsetAsync(void* devPtr, size_t maxCount, int32_t value, size_t count, aclrtStream stream) {
  return entry("aclrtMemsetAsync", Needs::context, [&](Runtime& runtime) {
    Stream& on = runtime.stream(stream);
    const int64_t bytes = checked_fill(runtime, devPtr, maxCount, count);
    if (!runtime.device->gm().owns(devPtr)) {
      throw Failure{ACL_ERROR_RT_PARAM_INVALID, "devPtr: " + hex(devPtr) + " is not device memory"};
    }
    on.tasks.push_back({[&runtime, devPtr, value, bytes](Stream&) {
      check_device_range(runtime, devPtr, bytes, "devPtr");
      fill(runtime, devPtr, value, bytes);
    }});
  });
}

aclError aclrtMemcpy(void* dst, size_t destMax, const void* src, size_t count, aclrtMemcpyKind kind) {
  return entry("aclrtMemcpy", Needs::context,
               [&](Runtime& runtime) { carry_out(runtime, checked_copy(runtime, dst, destMax, src, count, kind)); });
}

aclError aclrtMemcpyAsync(void* dst, size_t destMax, const void* src, size_t count, aclrtMemcpyKind kind,
                          aclrtStream stream) {
  return entry("aclrtMemcpyAsync", Needs::context, [&](Runtime& runtime) {
    Stream& on = runtime.stream(stream);
    queue_copy(runtime, checked_copy(runtime, dst, destMax, src, count, kind), on);
  });
}

aclError aclrtGetMemInfo(aclrtMemAttr, size_t* free, size_t* total) {
  return entry("aclrtGetMemInfo", Needs::context, [&](Runtime& runtime) {
    need(free, "free");
    need(total, "total");
    *total = static_cast<size_t>(runtime.target->gm_bytes);
    *free = static_cast<size_t>(runtime.target->gm_bytes - runtime.device->gm().used());
  });
}
