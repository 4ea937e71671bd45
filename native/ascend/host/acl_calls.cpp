#include "native/ascend/host/acl_calls.h"

namespace hajax::ascend::host {
namespace {

// ACL's numbers, which its headers give names only in some versions.
constexpr int kBadAlloc = 200000;
constexpr int kMemoryAllocation = 207001;
constexpr int kLostHeartbeat = 507010;

Status status_of(aclError code, Status otherwise) {
  switch (code) {
    case kBadAlloc:
    case kMemoryAllocation:
      return kStatus_no_memory;
    case kLostHeartbeat:
      return kStatus_device_lost;
    default:
      return otherwise;
  }
}

}  // namespace

Failure acl(const char* what, aclError code, Status otherwise) {
  if (code == ACL_SUCCESS) return {};
  const char* text = aclGetRecentErrMsg();
  std::string message = std::string(what) + " failed with ACL error " + std::to_string(code);
  if (text != nullptr) message += std::string(": ") + text;
  return {status_of(code, otherwise), message};
}

Failure Memory::allocate(int64_t bytes) {
  return acl("aclrtMalloc", aclrtMalloc(&address_, static_cast<size_t>(room(bytes)), ACL_MEM_MALLOC_HUGE_FIRST));
}

Failure Memory::fill_from(const void* host, int64_t bytes) {
  if (Failure f = allocate(bytes); f.failed() || bytes == 0) return f;
  const auto size = static_cast<size_t>(bytes);
  return acl("aclrtMemcpy", aclrtMemcpy(address_, size, host, size, ACL_MEMCPY_HOST_TO_DEVICE));
}

Failure Memory::read(void* host, int64_t offset, int64_t bytes) const {
  if (bytes == 0) return {};
  const auto size = static_cast<size_t>(bytes);
  return acl("aclrtMemcpy", aclrtMemcpy(host, size, at(offset), size, ACL_MEMCPY_DEVICE_TO_HOST));
}

Failure Memory::zero(int64_t offset, int64_t bytes) {
  if (bytes == 0) return {};
  const auto size = static_cast<size_t>(bytes);
  return acl("aclrtMemset", aclrtMemset(at(offset), size, 0, size));
}

InContext::InContext(aclrtContext context) {
  if (aclrtGetCurrentContext(&before_) != ACL_SUCCESS) {
    aclGetRecentErrMsg();  // a thread without one is no error
    before_ = nullptr;
  }
  if (before_ == context) return;
  failure_ = acl("aclrtSetCurrentContext", aclrtSetCurrentContext(context));
  changed_ = !failure_.failed();
}

InContext::~InContext() {
  if (changed_ && before_ != nullptr && aclrtSetCurrentContext(before_) != ACL_SUCCESS) aclGetRecentErrMsg();
}

}  // namespace hajax::ascend::host
