// ACL's objects with owners, and its return codes as failures.
#ifndef HAJAX_NATIVE_ASCEND_HOST_ACL_CALLS_H_
#define HAJAX_NATIVE_ASCEND_HOST_ACL_CALLS_H_

#include <stdint.h>

#include <vector>

#include "acl/acl.h"
#include "native/ascend/host/failure.h"

namespace hajax::ascend::host {

// With ACL's text. `otherwise` is the status of a code that means neither a lack of memory nor the loss of the device.
Failure acl(const char* what, aclError code, Status otherwise = kStatus_internal);

// Device memory; never empty, so that a kernel always has an address.
class Memory {
 public:
  Memory() = default;
  ~Memory() {
    if (address_ != nullptr) aclrtFree(address_);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  static int64_t room(int64_t bytes) { return bytes < kLeast ? kLeast : bytes; }

  Failure allocate(int64_t bytes);
  Failure fill_from(const void* host, int64_t bytes);
  Failure fill_from(const std::vector<float>& host) {
    return fill_from(host.data(), static_cast<int64_t>(host.size() * sizeof(float)));
  }
  Failure read(void* host, int64_t offset, int64_t bytes) const;
  Failure zero(int64_t offset, int64_t bytes);
  void forget() { address_ = nullptr; }  // the device has taken it back
  void* at(int64_t offset) const { return static_cast<uint8_t*>(address_) + offset; }
  void* address() const { return address_; }

 private:
  static constexpr int64_t kLeast = 32;

  void* address_ = nullptr;
};

class Stream {
 public:
  Stream() = default;
  ~Stream() {
    if (stream_ != nullptr) aclrtDestroyStream(stream_);
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  Failure create() { return acl("aclrtCreateStream", aclrtCreateStream(&stream_)); }
  Failure finish() { return acl("hajax_delta_rule", aclrtSynchronizeStream(stream_), kStatus_stream_error); }
  aclrtStream get() const { return stream_; }

 private:
  aclrtStream stream_ = nullptr;
};

// While one lives, the context is the thread's current one: a handle may be used or closed by another thread than the
// one that opened it.
class InContext {
 public:
  explicit InContext(aclrtContext context);
  ~InContext();
  InContext(const InContext&) = delete;
  InContext& operator=(const InContext&) = delete;
  const Failure& failure() const { return failure_; }

 private:
  aclrtContext before_ = nullptr;
  bool changed_ = false;
  Failure failure_;
};

}  // namespace hajax::ascend::host

#endif  // HAJAX_NATIVE_ASCEND_HOST_ACL_CALLS_H_
