// Memory and copies.
#include <string.h>

#include <memory>
#include <utility>

#include "native/emulator/acl/runtime.h"

using namespace hajax::emulator::acl;

namespace {

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

void check_host_range(const Runtime& runtime, const void* pointer, int64_t bytes, const char* name) {
  if (runtime.device->gm().owns(pointer)) {
    throw Failure{ACL_ERROR_RT_PARAM_INVALID,
                  std::string(name) + ": the kind says host memory, " + hex(pointer) + " is the device's"};
  }
  const HostMemory::Block block = runtime.host.find(pointer);
  if (block.start == nullptr) return;  // the program's own: only it knows how long that is
  const auto room = static_cast<int64_t>(block.start + block.bytes - static_cast<const uint8_t*>(pointer));
  if (!block.live || bytes > room) {
    throw Failure{ACL_ERROR_RT_PARAM_INVALID,
                  std::string(name) + ": expected " + std::to_string(bytes) + " bytes of host memory, got " +
                      (block.live ? std::to_string(room) + " to the end of its aclrtMallocHost memory"
                                  : "aclrtMallocHost memory that was freed")};
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

bool is_pinned(const Runtime& runtime, const void* pointer) { return runtime.host.find(pointer).start != nullptr; }

void queue_copy(Runtime& runtime, const Copy& copy, Stream& stream) {
  if (!copy.to_device && !is_pinned(runtime, copy.to)) {
    // The program's own memory may be gone later: such a copy waits for its turn here. A failure before it stays for
    // the next wait.
    runtime.advance(stream, [] { return false; });
    carry_out(runtime, copy);
    return;
  }
  std::shared_ptr<uint8_t[]> staged;
  Copy later = copy;
  if (!copy.from_device && !is_pinned(runtime, copy.from)) {
    staged.reset(new uint8_t[static_cast<size_t>(copy.bytes)]);
    memcpy(staged.get(), copy.from, static_cast<size_t>(copy.bytes));
    later.from = staged.get();
  }
  stream.tasks.push_back({[&runtime, later, staged](Stream&) {
    // Memory that was there at the call may be gone by now.
    (later.to_device ? check_device_range : check_host_range)(runtime, later.to, later.bytes, "dst");
    (later.from_device ? check_device_range : check_host_range)(runtime, later.from, later.bytes, "src");
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
    void* memory = runtime.host.allocate(size);
    if (memory == nullptr) throw Failure{ACL_ERROR_BAD_ALLOC, std::to_string(size) + " bytes: out of host memory"};
    *hostPtr = memory;
  });
}

aclError aclrtFreeHost(void* hostPtr) {
  return entry("aclrtFreeHost", Needs::device, [&](Runtime& runtime) {
    need(hostPtr, "hostPtr");
    if (!runtime.host.release(hostPtr)) {
      const HostMemory::Block block = runtime.host.find(hostPtr);
      const char* why = block.start == nullptr ? "no memory of aclrtMallocHost"
                        : block.live           ? "not the start of its memory"
                                               : "freed already";
      throw Failure{ACL_ERROR_RT_PARAM_INVALID, "hostPtr: " + hex(hostPtr) + " is " + why};
    }
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
